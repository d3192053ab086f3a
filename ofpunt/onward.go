// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

// onward ends every chain in hijack mode: what no plugin answers goes to where it
// was sent.
type onward struct{}

// Name implements plugin.Handler.
func (onward) Name() string { return "onward" }

// ServeDNS implements plugin.Handler.
func (onward) ServeDNS(ctx context.Context, _ dns.ResponseWriter, _ *dns.Msg) (int, error) {
	q, ok := ctx.Value(queryKey{}).(*query)
	if !ok {
		return dns.RcodeServerFailure, plugin.Error(name, errNotPaused)
	}
	if err := q.Resume(); err != nil {
		return dns.RcodeServerFailure, plugin.Error(name, err)
	}
	return dns.RcodeSuccess, nil
}

// goOnward puts onward at the end of the chains of configs, and behind all of them
// for names and askers that none of them takes.
func goOnward(configs []*dnsserver.Config) []*dnsserver.Config {
	last := func(plugin.Handler) plugin.Handler { return onward{} }
	for _, c := range configs {
		// The zones of one block share the slice.
		c.Plugin = append(c.Plugin[:len(c.Plugin):len(c.Plugin)], last)
	}
	return append(configs, &dnsserver.Config{Zone: ".", Plugin: []plugin.Plugin{last}})
}

// foreign reports a query that the server would refuse by itself, before any
// chain: another class than IN, or an EDNS version that is not known.
func foreign(r *dns.Msg) bool {
	o := r.IsEdns0()
	return r.Question[0].Qclass != dns.ClassINET || o != nil && o.Version() != 0
}
