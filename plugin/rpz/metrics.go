// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"github.com/puntdns/puntdns/internal/metricset"
	"github.com/puntdns/puntdns/plugin/rpz/rules"
	"github.com/puntdns/puntdns/plugin/rpz/source"
)

var (
	matches = series.QueryCounter("matches_total",
		"Queries that a rule is for, by the policy zone and by what was done: nxdomain, nodata, passthru, drop, tcp-only, local; log where the zone is only logged, signed where the answer is signed and was left alone.", "zone", "action")
	notifies     = series.Counter("notifies_total", "NOTIFY messages for policy zones: accepted ones of a primary, or refused.", "zone", "result")
	linesDropped = series.Counter("log_lines_dropped_total", "Lines of the log that were over its rate.").WithLabelValues()
)

var (
	series = metricset.New(name)

	zoneRules     = series.ScrapedGauge("rules", "Rules of the zone by their trigger; skipped ones are not supported, bad ones are no rules.", "zone", "place", "trigger")
	zoneBytes     = series.ScrapedGauge("rules_bytes", "Memory of the rules for names and of local data, in bytes.", "zone", "place")
	zoneTimestamp = series.ScrapedGauge("load_timestamp_seconds", "When the present rules were read, in Unix time; 0 without any.", "zone", "place")
	zoneChecked   = series.ScrapedGauge("checked_timestamp_seconds", "When the rules were last known to be those of the file or the primaries, in Unix time; 0 before that.", "zone", "place")
	zoneDuration  = series.ScrapedGauge("load_duration_seconds", "How long it took to read the present rules.", "zone", "place")
	zoneFailures  = series.ScrapedCounter("load_failures_total", "Files that could not be read, and refreshes from primaries that have failed.", "zone", "place")
	zoneTransfers = series.ScrapedCounter("transfers_total", "Answers of primaries: axfr for a whole zone, ixfr for a delta, up-to-date, and fallback for a delta that could not be used, before the whole zone.", "zone", "place", "result")
	zoneSerial    = series.ScrapedGauge("serial", "Serial number of the zone's present version.", "zone", "place")
)

func init() { series.OnScrape(scrape) }

func scrape(to metricset.Scrape) {
	// Sources that differ only in key or limits have the same metric.
	seen := map[[2]string]bool{}
	for _, s := range source.All() {
		c := s.Config()
		key := [2]string{c.Zone, c.Place()}
		if !seen[key] {
			scrapeZone(to, s, key)
		}
		seen[key] = true
	}
}

func scrapeZone(to metricset.Scrape, s *source.Source, key [2]string) {
	put := func(m metricset.Scraped, v float64, labels ...string) { to.Put(m, v, append(key[:], labels...)...) }
	st := s.Status()
	stamp := 0.
	if r := s.Rules(); r != nil {
		stamp = float64(st.Loaded.UnixMicro()) / 1e6
		put(zoneRules, float64(r.Stats.Names), rules.QName.String())
		put(zoneRules, float64(r.Stats.Addresses), rules.ResponseIP.String())
		put(zoneRules, float64(r.Stats.Skipped[rules.ClientIP]+r.Stats.Skipped[rules.NSIP]+r.Stats.Skipped[rules.NSDName]), "skipped")
		put(zoneRules, float64(r.Stats.Bad), "bad")
		put(zoneBytes, float64(r.Size()))
		put(zoneSerial, float64(r.SOA.Serial))
		put(zoneDuration, st.Took.Seconds())
	}
	put(zoneTimestamp, stamp)
	checked := 0.
	if !st.Checked.IsZero() {
		checked = float64(st.Checked.UnixMicro()) / 1e6
	}
	put(zoneChecked, checked)
	put(zoneFailures, float64(st.Failures))
	if s.Config().Primaries == "" {
		return
	}
	for result, n := range st.Transfers {
		put(zoneTransfers, float64(n), source.Result(result).String())
	}
}
