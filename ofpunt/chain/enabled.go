// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"github.com/coredns/coredns/plugin/metrics/vars"
	"github.com/prometheus/client_golang/prometheus"
)

// SetEnabled sets coredns_plugin_enabled for blocks with prometheus: CoreDNS sets it only for blocks with a socket.
func (s *Server) SetEnabled() {
	for _, c := range s.configs {
		if c.Handler("prometheus") == nil {
			continue
		}
		for _, h := range c.Handlers() {
			vars.PluginEnabled.WithLabelValues(s.address(), c.Zone, c.ViewName, h.Name()).Set(1)
		}
	}
}

// ClearEnabled undoes SetEnabled: *prometheus* does not reset the metric if a reload fails.
func (s *Server) ClearEnabled() {
	vars.PluginEnabled.DeletePartialMatch(prometheus.Labels{"server": s.address()})
}
