// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/parse"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/plugincfg/traits"
	"github.com/puntdns/puntdns/plugin/private"
)

// privateForwards warns of forwards for zones that private answers.
func privateForwards(path string, b *caddyfile.ServerBlock) (warnings []string) {
	if len(b.Tokens[private.Name]) == 0 {
		return nil
	}
	answers, err := private.Answers(corefile.Controller(path, b, private.Name))
	if err != nil {
		return nil // a start returns it
	}
	for _, f := range forwardsOf(path, b) {
		for _, zone := range plugin.Host(f.from).NormalizeExact() {
			if answers(zone) {
				warnings = append(warnings, fmt.Sprintf("%s - forward %s: private in the same block answers for %s; expected except %s there, or a server block of its own for the zone", f.at, f.from, zone, f.from))
				break
			}
		}
	}
	return warnings
}

// nodeResolvers has the DNS servers of the node (resolv.conf(5)).
const nodeResolvers = "/etc/resolv.conf"

// resolvConfs warns of forwards by which guests ask the node's DNS servers.
func resolvConfs(path string, b *caddyfile.ServerBlock) (warnings []string) {
	if len(b.Tokens["ofpunt"]) == 0 {
		return nil // not for guests
	}
	for _, f := range forwardsOf(path, b) {
		if slices.Contains(f.to, nodeResolvers) {
			warnings = append(warnings, fmt.Sprintf("%s - forward %s: %s has the DNS servers of this node, and each guest could ask them for the operator's internal names; expected resolvers that tenants may ask", f.at, f.from, nodeResolvers))
		}
	}
	return warnings
}

// behindForward warns of plugins behind a forward for all names.
func behindForward(path string, b *caddyfile.ServerBlock) (warnings []string) {
	directives := caddy.ValidDirectives(ServerType) // in the order of a query
	behind := directives[slices.Index(directives, "forward")+1:]
	for _, f := range forwardsOf(path, b) {
		if !f.takesAll(zonesOf(b)) {
			continue
		}
		for _, directive := range behind {
			for _, at := range positionsOf(path, []caddyfile.ServerBlock{*b}, directive) {
				if !traits.Has(directive, traits.PassesOn) {
					warnings = append(warnings, fmt.Sprintf("%s - %s: it gets no query, as forward %s comes before it, whatever the order of their lines", at, directive, f.from))
				}
			}
		}
	}
	return warnings
}

// uselessHedges warns of hedge without a second server.
func uselessHedges(r *reading) (warnings []string) {
	for i := range r.blocks {
		b := &r.blocks[i]
		at, found := propertyOf(r.path, b.Tokens["ofpunt"], "hedge")
		if found && !slices.ContainsFunc(r.blocks, func(b caddyfile.ServerBlock) bool { return len(b.Tokens["ofpunt"]) > 0 && hasSecondServer(r.path, &b) }) {
			warnings = append(warnings, fmt.Sprintf("%s - ofpunt: hedge: it has no effect, as no server block with ofpunt has two servers in its last forward; expected forward with two servers that know the same names, or no hedge", at))
		}
	}
	return warnings
}

// hasSecondServer is about the last forward, the only hedged one. An unreadable file of servers counts: a
// start returns that error.
func hasSecondServer(path string, b *caddyfile.ServerBlock) bool {
	all := forwardsOf(path, b)
	if len(all) == 0 {
		return false
	}
	servers, err := parse.HostPortOrFile(all[len(all)-1].to...)
	return err != nil || len(servers) > 1
}

// takesAll reports whether no query of the zones passes on.
func (f *forwardLine) takesAll(zones []string) bool {
	if slices.Contains(f.properties, "except") || slices.Contains(f.properties, "next") {
		return false
	}
	from := plugin.Host(f.from).NormalizeExact()
	return !slices.ContainsFunc(zones, func(zone string) bool { return plugin.Zones(from).Matches(zone) == "" })
}

type forwardLine struct {
	at         corefile.Position
	from       string
	to         []string
	properties []string
}

func forwardsOf(path string, b *caddyfile.ServerBlock) (all []forwardLine) {
	d := caddyfile.NewDispenserTokens("", b.Tokens["forward"])
	for d.Next() {
		f := forwardLine{at: corefile.Position{File: cmp.Or(d.File(), path), Line: d.Line()}, from: "."}
		if args := d.RemainingArgs(); len(args) > 0 {
			f.from, f.to = args[0], args[1:]
		}
		for d.NextBlock() {
			f.properties = append(f.properties, d.Val())
			d.RemainingArgs()
		}
		all = append(all, f)
	}
	return all
}
