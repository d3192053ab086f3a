// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"github.com/puntdns/puntdns/internal/metricset"
	"github.com/puntdns/puntdns/ofpunt/metric"
)

// Whether a bridge is ready depends on databases and their bindings too, so each scrape looks.
func init() {
	metric.Bridges.OnScrape(func(to metricset.Scrape) {
		for _, b := range bridges.all() {
			to.Put(metric.Ready, metricset.Flag(b.whyNotReady() == ""), b.name)
			to.Put(metric.Stalled, metricset.Flag(b.stall.reason() != ""), b.name)
		}
	})
}
