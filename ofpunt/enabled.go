// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"github.com/coredns/coredns/plugin/metrics/vars"
	"github.com/prometheus/client_golang/prometheus"
)

// showEnabled sets coredns_plugin_enabled for the blocks with prometheus, as that
// plugin does for those that have a socket.
func (s *server) showEnabled() {
	for _, c := range s.configs {
		if c.Handler("prometheus") == nil {
			continue
		}
		for _, h := range c.Handlers() {
			vars.PluginEnabled.WithLabelValues(s.dns.Addr, c.Zone, c.ViewName, h.Name()).Set(1)
		}
	}
}

// hideEnabled takes back what showEnabled has set, for a server that is not to answer
// after all. prometheus itself forgets all of it at a reload, and does nothing for a
// reload that fails.
func (s *server) hideEnabled() {
	vars.PluginEnabled.DeletePartialMatch(prometheus.Labels{"server": s.dns.Addr})
}
