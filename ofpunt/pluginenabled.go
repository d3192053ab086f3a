// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"github.com/coredns/coredns/plugin/metrics/vars"
	"github.com/prometheus/client_golang/prometheus"
)

// setPluginEnabled sets coredns_plugin_enabled for the blocks with prometheus, as that
// plugin does for those that have a socket.
func (s *server) setPluginEnabled() {
	for _, c := range s.configs {
		if c.Handler("prometheus") == nil {
			continue
		}
		for _, h := range c.Handlers() {
			vars.PluginEnabled.WithLabelValues(s.dns.Addr, c.Zone, c.ViewName, h.Name()).Set(1)
		}
	}
}

// clearPluginEnabled undoes setPluginEnabled, for a server that is not to answer after all.
// The plugin prometheus resets the metric at a reload, and does nothing for a reload that
// fails.
func (s *server) clearPluginEnabled() {
	vars.PluginEnabled.DeletePartialMatch(prometheus.Labels{"server": s.dns.Addr})
}
