// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/ofpunt/metric"
)

func init() { prometheus.MustRegister(readyCollector{&bridges}) }

// readyCollector is a prometheus.Collector. Whether a bridge is ready depends on the databases and
// their bindings, too, so it is looked up at each scrape.
type readyCollector struct{ of *registry }

// Describe implements prometheus.Collector.
func (c readyCollector) Describe(ch chan<- *prometheus.Desc) { ch <- metric.DescReady }

// Collect implements prometheus.Collector.
func (c readyCollector) Collect(ch chan<- prometheus.Metric) {
	for _, b := range c.of.all() {
		ready := 0.
		if b.whyNotReady() == "" {
			ready = 1
		}
		ch <- prometheus.MustNewConstMetric(metric.DescReady, prometheus.GaugeValue, ready, b.name)
	}
}
