// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/plugincfg/traits"
	"github.com/puntdns/puntdns/plugin/private"
)

// privateForwards warns of forwards for zones that private, above them in the block, answers for.
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

// nodeResolvers is the file with the DNS servers of the node (resolv.conf(5)).
const nodeResolvers = "/etc/resolv.conf"

// resolvConfs warns of forwards by which guests ask the DNS servers of the node.
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

// behindForward warns of plugins that get no query, as a forward for all names of the block comes before them.
func behindForward(path string, b *caddyfile.ServerBlock) (warnings []string) {
	directives := caddy.ValidDirectives(ServerType) // in the order in which a query passes them
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

// takesAll reports whether forward leaves no query for some zones to the plugins behind it.
func (f *forwardLine) takesAll(zones []string) bool {
	if slices.Contains(f.properties, "except") || slices.Contains(f.properties, "next") {
		return false
	}
	from := plugin.Host(f.from).NormalizeExact()
	return !slices.ContainsFunc(zones, func(zone string) bool { return plugin.Zones(from).Matches(zone) == "" })
}

// forwardLine is a forward of a server block: where it stands, for which zone it is, whom it asks, and the names
// of its properties.
type forwardLine struct {
	at         corefile.Position
	from       string
	to         []string
	properties []string
}

// forwardsOf returns the forwards of a server block of the file.
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
