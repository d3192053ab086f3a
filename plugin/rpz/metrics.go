// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/puntdns/puntdns/internal/metricset"
	"github.com/puntdns/puntdns/plugin/rpz/rules"
	"github.com/puntdns/puntdns/plugin/rpz/source"
)

var (
	matches = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: name, Name: "matches_total",
		Help: "Queries that a rule is for, by the policy zone and by what was done: nxdomain, nodata, passthru, drop, tcp-only, local; log where the zone is only logged, signed where the answer is signed and was left alone.",
	}, []string{"server", "view", "zone", "action"})
	linesDropped = promauto.NewCounter(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: name, Name: "log_lines_dropped_total",
		Help: "Lines of the log that were over its rate.",
	})
)

// What is known of the zones, computed at each scrape.
var (
	described = metricset.New(name, "zone", "place")

	descRules     = described.Desc("rules", "Rules of the zone by their trigger; skipped ones are not supported, bad ones are no rules.", "trigger")
	descBytes     = described.Desc("rules_bytes", "Memory of the rules for names and of local data, in bytes.")
	descTimestamp = described.Desc("load_timestamp_seconds", "When the present rules were read, in Unix time; 0 without any.")
	descChecked   = described.Desc("checked_timestamp_seconds", "When the rules were last known to be those of the file or the primaries, in Unix time; 0 before that.")
	descDuration  = described.Desc("load_duration_seconds", "How long it took to read the present rules.")
	descFailures  = described.Desc("load_failures_total", "Files that could not be read, and refreshes from primaries that have failed.")
	descSerial    = described.Desc("serial", "Serial number of the zone's present version.")
)

func init() { prometheus.MustRegister(collector{described}) }

// collector is a prometheus.Collector of all zones of the process.
type collector struct{ *metricset.Set }

func (collector) Collect(ch chan<- prometheus.Metric) {
	// Those that differ in their key alone would be the same metric.
	told := map[[2]string]bool{}
	for _, s := range source.All() {
		c := s.Config()
		key := [2]string{c.Zone, c.Place()}
		if told[key] {
			continue
		}
		told[key] = true
		collect(ch, s, key)
	}
}

func collect(ch chan<- prometheus.Metric, s *source.Source, key [2]string) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append(key[:], labels...)...)
	}
	st := s.Status()
	stamp := 0.
	if r := s.Rules(); r != nil {
		stamp = float64(st.Loaded.UnixMicro()) / 1e6
		gauge(descRules, float64(r.Stats.Names), rules.QName.String())
		gauge(descRules, float64(r.Stats.Addresses), rules.ResponseIP.String())
		gauge(descRules, float64(r.Stats.Skipped[rules.ClientIP]+r.Stats.Skipped[rules.NSIP]+r.Stats.Skipped[rules.NSDName]), "skipped")
		gauge(descRules, float64(r.Stats.Bad), "bad")
		gauge(descBytes, float64(r.Size()))
		gauge(descSerial, float64(r.SOA.Serial))
		gauge(descDuration, st.Took.Seconds())
	}
	gauge(descTimestamp, stamp)
	checked := 0.
	if !st.Checked.IsZero() {
		checked = float64(st.Checked.UnixMicro()) / 1e6
	}
	gauge(descChecked, checked)
	ch <- prometheus.MustNewConstMetric(descFailures, prometheus.CounterValue, float64(st.Failures), key[:]...)
}
