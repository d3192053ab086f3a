// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"github.com/puntdns/puntdns/internal/auditlog"
	"github.com/puntdns/puntdns/internal/metricset"
)

// dnstap has no metric of dropped messages.
var dnstapDropped = series.Counter("dnstap_dropped_total",
	"Messages that dnstap has dropped, as its log tells every 10 s: the queue was full, or the collector gone.").WithLabelValues()

var (
	series = metricset.New(name)

	written = series.ScrapedCounter("lines_written_total", "Lines written, those of events that are no queries included.", "target")
	dropped = series.ScrapedCounter("lines_dropped_total", "Lines lost as the queue was full. The audit log has the number, too.", "target")
	failed  = series.ScrapedCounter("write_errors_total", "Failed attempts to write, or to connect. The lines wait.", "target")
	rotated = series.ScrapedCounter("rotations_total", "Files rotated.", "target")
	queue   = series.ScrapedGauge("queue_bytes", "Lines that wait to be written, in bytes.", "target")
	up      = series.ScrapedGauge("target_up", "1, or 0 while the target takes no lines.", "target")
	// abandoned outlives the Writer and its other metrics.
	abandoned = series.ScrapedCounter("lines_abandoned_total", "Lines lost at the end of the process, or when a reload has removed a target: not written in time, or later.")
)

func init() { series.OnScrape(scrape) }

func scrape(to metricset.Scrape) {
	to.Put(abandoned, float64(auditlog.Abandoned()))
	for _, s := range auditlog.All() {
		target := s.Target.String()
		to.Put(written, float64(s.Written), target)
		to.Put(dropped, float64(s.Dropped), target)
		to.Put(failed, float64(s.Errors), target)
		to.Put(rotated, float64(s.Rotated), target)
		to.Put(queue, float64(s.Queued), target)
		to.Put(up, metricset.Flag(s.Up), target)
	}
}
