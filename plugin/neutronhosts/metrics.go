// SPDX-License-Identifier: Apache-2.0

package neutronhosts

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/puntdns/puntdns/internal/addnhosts"
	"github.com/puntdns/puntdns/internal/metricset"
)

var answers = promauto.NewCounterVec(prometheus.CounterOpts{
	Namespace: plugin.Namespace, Subsystem: name, Name: "answers_total",
	Help: "Answers by what gave them: port (a name in a file), zone (the domain's SOA and NS records and the address of its server), nodata (the name without the type), nxdomain.",
}, []string{"server", "view", "answer"})

// What is read of the folders, computed at each scrape.
var (
	described = metricset.New(name, "path")

	descNetworks  = described.Desc("networks", "Networks that have a file, and were read.")
	descNames     = described.Desc("names", "Names in all files, bare ones and those with a domain.")
	descUnread    = described.Desc("files_unread", "Files and folders that can't be read.")
	descBad       = described.Desc("bad_lines_total", "Lines and names in the files that could not be read.")
	descTimestamp = described.Desc("snapshot_timestamp_seconds", "When a file has changed last, in Unix time.")
)

func init() { prometheus.MustRegister(collector{described}) }

// collector is a prometheus.Collector of all folders of the process.
type collector struct{ *metricset.Set }

func (collector) Collect(ch chan<- prometheus.Metric) {
	for _, source := range addnhosts.All() {
		s := source.Snapshot()
		if s == nil {
			continue
		}
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, source.Dir())
		}
		gauge(descNetworks, float64(s.Stats.Networks))
		gauge(descNames, float64(s.Stats.Names))
		gauge(descUnread, float64(s.Stats.Unread))
		gauge(descTimestamp, float64(s.Time.UnixMicro())/1e6)
		ch <- prometheus.MustNewConstMetric(descBad, prometheus.CounterValue, float64(s.Stats.BadLines), source.Dir())
	}
}
