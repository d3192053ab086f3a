// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"context"
	"sync"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/puntdns/puntdns/internal/metricset"
)

var (
	requests = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: Name, Name: "requests_total",
		Help: "Queries for zones of networks that were not answered from cache, by outcome: the rcode of the server; unreachable, if none answers; refused, if none may be asked; limit, if max_upstreams are being asked; loop, if it comes from a server of the zone.",
	}, []string{"server", "view", "outcome"})
	evictions = promauto.NewCounter(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: Name, Name: "evictions_total",
		Help: "Servers that were stopped for another one, since there were max_upstreams.",
	})
)

// Values of the label outcome that are no rcodes.
const (
	outcomeUnreachable = "unreachable"
	outcomeRefused     = "refused"
	outcomeLimit       = "limit"
	outcomeLoop        = "loop"
	outcomeOther       = "other" // a rcode that has no name
)

// outcomeOf returns the label of an answer.
func outcomeOf(m *dns.Msg) string {
	if text, ok := dns.RcodeToString[m.Rcode]; ok {
		return text
	}
	return outcomeOther
}

func count(ctx context.Context, outcome string) {
	requests.WithLabelValues(metrics.WithServer(ctx), metrics.WithView(ctx), outcome).Inc()
}

// Gauges of all Handlers of the process, computed at each scrape.
var (
	described = metricset.New(Name)

	descUpstreams = described.Desc("upstreams", "Servers of networks that are in use, by their health: up or down.", "health")
	descRefused   = described.Desc("refused_servers", "Servers that networks name and that are not asked, by the reason; zones and servers are those over max_zones and max_servers.", "reason")
)

// handlers are those that are open. handlersMu guards them.
var (
	handlersMu sync.Mutex
	handlers   = map[*Handler]struct{}{}
)

func init() { prometheus.MustRegister(collector{described}) }

// collector is a prometheus.Collector of the Handlers that are open.
type collector struct{ *metricset.Set }

// Collect implements prometheus.Collector.
func (collector) Collect(ch chan<- prometheus.Metric) {
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
	gauge := func(d *prometheus.Desc, n int, label string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), label)
	}
	gauge(descUpstreams, up, "up")
	gauge(descUpstreams, down, "down")
	for _, r := range reasons {
		gauge(descRefused, refused[r], string(r))
	}
}
