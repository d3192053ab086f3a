// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"cmp"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/plugin/private"
)

// WarnOfForwards warns of a forward for a zone that private, above it in the block, answers for.
func WarnOfForwards(in caddy.Input) {
	blocks, err := ParseBlocks(in)
	if err != nil {
		return // a start returns it
	}
	for i := range blocks {
		b := &blocks[i]
		if len(b.Tokens[private.Name]) == 0 {
			continue
		}
		answers, err := private.Answers(corefile.Controller(in.Path(), b, private.Name))
		if err != nil {
			continue // a start returns it
		}
		for _, f := range forwardsOf(in.Path(), b) {
			for _, zone := range plugin.Host(f.from).NormalizeExact() {
				if answers(zone) {
					log.Warningf("%s - forward %s: private in the same block answers for %s; expected except %s there, or a server block of its own for the zone", f.at, f.from, zone, f.from)
					break
				}
			}
		}
	}
}

// forwardLine is a forward of a server block: where it stands, and for which zone it is, as the
// Corefile has that.
type forwardLine struct {
	at   corefile.Position
	from string
}

// forwardsOf returns the forwards of a server block of the file.
func forwardsOf(path string, b *caddyfile.ServerBlock) (all []forwardLine) {
	d := caddyfile.NewDispenserTokens("", b.Tokens["forward"])
	for d.Next() {
		f := forwardLine{at: corefile.Position{File: cmp.Or(d.File(), path), Line: d.Line()}, from: "."}
		if args := d.RemainingArgs(); len(args) > 0 {
			f.from = args[0]
		}
		for d.NextBlock() {
			d.RemainingArgs()
		}
		all = append(all, f)
	}
	return all
}
