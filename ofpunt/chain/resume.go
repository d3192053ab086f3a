// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
)

// resumeUnanswered ends every chain in hijack mode.
type resumeUnanswered struct{}

// Name is not in coredns_plugin_enabled, which has only directives.
func (resumeUnanswered) Name() string { return "resume" }

func (resumeUnanswered) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	handled, code, err := origin.Resume(ctx, w, r)
	switch {
	case err != nil:
		return code, plugin.Error(name, err)
	case !handled: // punted in service mode: the mode has just changed
		return dns.RcodeServerFailure, nil
	}
	return code, nil
}

// addResumeUnanswered appends resumeUnanswered to each chain, and a config for queries that no zone or view takes.
func addResumeUnanswered(configs []*dnsserver.Config) []*dnsserver.Config {
	first := func(next plugin.Handler) plugin.Handler { return &Handler{Next: next} }
	last := func(plugin.Handler) plugin.Handler { return resumeUnanswered{} }
	for _, c := range configs {
		// Zones of one block share the slice.
		c.Plugin = append(c.Plugin[:len(c.Plugin):len(c.Plugin)], last)
	}
	return append(configs, &dnsserver.Config{Zone: ".", Plugin: []plugin.Plugin{first, last}})
}
