// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/puntdns/puntdns/internal/metricset"
	"github.com/puntdns/puntdns/internal/trail"
)

// dnstapDropped counts what the log of dnstap tells: that plugin has no metric of it.
var dnstapDropped = promauto.NewCounter(prometheus.CounterOpts{
	Namespace: plugin.Namespace, Subsystem: name, Name: "dnstap_dropped_total",
	Help: "Messages that dnstap has dropped, as its log tells every 10 s: the queue was full, or the collector gone.",
})

// It outlives the writers: their metrics are gone when it counts.
var _ = promauto.NewCounterFunc(prometheus.CounterOpts{
	Namespace: plugin.Namespace, Subsystem: name, Name: "lines_abandoned_total",
	Help: "Lines lost at the end of the process, or when a reload has removed a target: not written in time, or later.",
}, func() float64 { return float64(trail.Abandoned()) })

// What the writers of the process have done, computed at each scrape.
var (
	described = metricset.New(name, "target")

	descWritten = described.Desc("lines_written_total", "Lines written, those of events that are no queries included.")
	descDropped = described.Desc("lines_dropped_total", "Lines lost as the queue was full. The trail has the number, too.")
	descErrors  = described.Desc("write_errors_total", "Failed attempts to write, or to connect. The lines wait.")
	descRotated = described.Desc("rotations_total", "Files rotated.")
	descQueue   = described.Desc("queue_bytes", "Lines that wait to be written, in bytes.")
	descUp      = described.Desc("target_up", "1, or 0 while the target takes no lines.")
)

func init() { prometheus.MustRegister(collector{described}) }

// collector is a prometheus.Collector of all writers of the process.
type collector struct{ *metricset.Set }

func (collector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range trail.All() {
		metric := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
			ch <- prometheus.MustNewConstMetric(d, kind, v, s.Target.String())
		}
		metric(descWritten, prometheus.CounterValue, float64(s.Written))
		metric(descDropped, prometheus.CounterValue, float64(s.Dropped))
		metric(descErrors, prometheus.CounterValue, float64(s.Errors))
		metric(descRotated, prometheus.CounterValue, float64(s.Rotated))
		metric(descQueue, prometheus.GaugeValue, float64(s.Queued))
		up := 0.
		if s.Up {
			up = 1
		}
		metric(descUp, prometheus.GaugeValue, up)
	}
}
