// SPDX-License-Identifier: Apache-2.0

package neutronhosts

import (
	"github.com/puntdns/puntdns/internal/metricset"
	"github.com/puntdns/puntdns/plugin/neutronhosts/addnhosts"
)

var answers = series.QueryCounter("answers_total",
	"Answers by what gave them: port (a name in a file), zone (the domain's SOA and NS records and the address of its server), nodata (the name without the type), nxdomain.", "answer")

var (
	series = metricset.New(name)

	networks  = series.ScrapedGauge("networks", "Networks that have a file, and were read.", "path")
	names     = series.ScrapedGauge("names", "Names in all files, bare ones and those with a domain.", "path")
	unread    = series.ScrapedGauge("files_unread", "Files and folders that can't be read.", "path")
	bad       = series.ScrapedCounter("bad_lines_total", "Lines and names in the files that could not be read.", "path")
	timestamp = series.ScrapedGauge("snapshot_timestamp_seconds", "When a file has changed last, in Unix time.", "path")
)

func init() { series.OnScrape(scrape) }

func scrape(to metricset.Scrape) {
	for _, source := range addnhosts.All() {
		s := source.Snapshot()
		if s == nil {
			continue
		}
		path := source.Dir()
		to.Put(networks, float64(s.Stats.Networks), path)
		to.Put(names, float64(s.Stats.Names), path)
		to.Put(unread, float64(s.Stats.Unread), path)
		to.Put(timestamp, float64(s.Time.UnixMicro())/1e6, path)
		to.Put(bad, float64(s.Stats.BadLines), path)
	}
}
