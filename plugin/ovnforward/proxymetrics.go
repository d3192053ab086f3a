// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"errors"
	"net/netip"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
)

// proxyMetrics have servers as labels. Package proxy does not remove series, and tenants may name any number
// of servers.
var proxyMetrics = findProxyMetrics()

type deleter interface {
	prometheus.Collector
	DeletePartialMatch(labels prometheus.Labels) int
}

// findProxyMetrics finds unexported metrics: registering the same description fails with an error that has
// the first.
func findProxyMetrics() (found []deleter) {
	o := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: plugin.Namespace, Subsystem: "proxy", Name: name, Help: help}
	}
	for _, same := range []deleter{
		prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: plugin.Namespace, Subsystem: "proxy", Name: "request_duration_seconds", Help: "Histogram of the time each request took.",
		}, []string{"proxy_name", "to", "rcode"}),
		prometheus.NewCounterVec(prometheus.CounterOpts(o("healthcheck_failures_total", "Counter of the number of failed healthchecks.")), []string{"proxy_name", "to"}),
		prometheus.NewCounterVec(prometheus.CounterOpts(o("conn_cache_hits_total", "Counter of connection cache hits per upstream and protocol.")), []string{"proxy_name", "to", "proto"}),
		prometheus.NewCounterVec(prometheus.CounterOpts(o("conn_cache_misses_total", "Counter of connection cache misses per upstream and protocol.")), []string{"proxy_name", "to", "proto"}),
	} {
		err := prometheus.Register(same)
		if err == nil {
			prometheus.Unregister(same) // another version of CoreDNS
			continue
		}
		var there prometheus.AlreadyRegisteredError
		if errors.As(err, &there) {
			if vec, ok := there.ExistingCollector.(deleter); ok {
				found = append(found, vec)
			}
		}
	}
	return found
}

// checkEnds is when the last health check of a stopped server is over.
const checkEnds = 5 * time.Second

// forgetServer removes metrics after the last health check. For another Handler with this server they restart
// from zero.
func forgetServer(server netip.AddrPort) {
	labels := prometheus.Labels{"proxy_name": Name, "to": server.String()}
	time.AfterFunc(checkEnds, func() {
		for _, m := range proxyMetrics {
			m.DeletePartialMatch(labels)
		}
	})
}
