// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"github.com/coredns/coredns/plugin/metrics/vars"
	"github.com/prometheus/client_golang/prometheus"
)

// SetEnabled sets coredns_plugin_enabled for the blocks with prometheus, as that
// plugin does for those that have a socket.
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

// ClearEnabled undoes SetEnabled, for a server that is not to answer after all.
// The plugin prometheus resets the metric at a reload, and does nothing for a reload that
// fails.
func (s *Server) ClearEnabled() {
	vars.PluginEnabled.DeletePartialMatch(prometheus.Labels{"server": s.address()})
}
