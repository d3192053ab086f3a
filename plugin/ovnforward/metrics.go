// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"sync"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/metricset"
)

var (
	requests = series.QueryCounter("requests_total",
		"Queries for zones of networks that were not answered from cache, by outcome: the rcode of the server; unreachable, if none answers; refused, if none may be asked; limit, if max_upstreams are being asked; loop, if it comes from a server of the zone.", "outcome")
	evictions = series.Counter("evictions_total",
		"Servers that were stopped for another one, since there were max_upstreams.").WithLabelValues()
)

// Values of the label outcome besides rcodes.
const (
	outcomeUnreachable = "unreachable"
	outcomeRefused     = "refused"
	outcomeLimit       = "limit"
	outcomeLoop        = "loop"
	outcomeOther       = "other" // an rcode without a name
)

func outcomeOf(m *dns.Msg) string {
	if text, ok := dns.RcodeToString[m.Rcode]; ok {
		return text
	}
	return outcomeOther
}

// Gauges of all Handlers, computed at each scrape.
var (
	series = metricset.New(Name)

	upstreams      = series.ScrapedGauge("upstreams", "Servers of networks that are in use, by their health: up or down.", "health")
	refusedServers = series.ScrapedGauge("refused_servers", "Servers that networks name and that are not asked, by the reason; zones and servers are those over max_zones and max_servers.", "reason")
)

// handlers are open; handlersMu guards them.
var (
	handlersMu sync.Mutex
	handlers   = map[*Handler]struct{}{}
)

func init() { series.OnScrape(scrape) }

func scrape(to metricset.Scrape) {
	handlersMu.Lock()
	defer handlersMu.Unlock()
	up, down, refused := 0, 0, map[reason]int{}
	for h := range handlers {
		u, d := h.pool.health()
		up, down = up+u, down+d
		for r, n := range h.reviewer.counts() {
			refused[r] += n
		}
	}
	to.Put(upstreams, float64(up), "up")
	to.Put(upstreams, float64(down), "down")
	for _, r := range reasons {
		to.Put(refusedServers, float64(refused[r]), string(r))
	}
}
