// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
)

// resumeUnanswered is the last handler of every chain in hijack mode: what no plugin answers is
// resumed to its own destination.
type resumeUnanswered struct{}

// Name implements plugin.Handler. It is no label of coredns_plugin_enabled, which has the
// names of directives only.
func (resumeUnanswered) Name() string { return "resume" }

// ServeDNS implements plugin.Handler.
func (resumeUnanswered) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	handled, code, err := origin.Resume(ctx, w, r)
	switch {
	case err != nil:
		return code, plugin.Error(name, err)
	case !handled: // the query was punted in service mode: the mode has just changed
		return dns.RcodeServerFailure, nil
	}
	return code, nil
}

// addResumeUnanswered puts resumeUnanswered at the end of the chains of configs, and adds a
// config that has nothing else, for queries that no zone or view of the others takes.
func addResumeUnanswered(configs []*dnsserver.Config) []*dnsserver.Config {
	first := func(next plugin.Handler) plugin.Handler { return &Handler{Next: next} }
	last := func(plugin.Handler) plugin.Handler { return resumeUnanswered{} }
	for _, c := range configs {
		// The zones of one block share the slice.
		c.Plugin = append(c.Plugin[:len(c.Plugin):len(c.Plugin)], last)
	}
	return append(configs, &dnsserver.Config{Zone: ".", Plugin: []plugin.Plugin{first, last}})
}
