// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"slices"

	"github.com/coredns/caddy/caddyfile"
)

// warnOfTransfers warns of zone transfers to addresses in a block that is for the guests of any
// network: each tenant may give a guest that address, or two of them. file has the block.
func (b *block) warnOfTransfers(file string) {
	if len(b.block.Tokens["view"]) > 0 || b.signsTransfers() {
		return
	}
	d := dispenser(b.block.Tokens["transfer"])
	for d.Next() {
		d.RemainingArgs() // zones
		for d.NextBlock() {
			at := caddyfile.Token{File: d.File(), Line: d.Line()}
			if d.Val() != "to" {
				d.RemainingArgs()
				continue
			}
			for _, address := range d.RemainingArgs() {
				if address != "*" {
					log.Warningf("%s - transfer to %s: a guest of any network may have that address; expected a view of one network in the block, or tsig with require AXFR IXFR", locationOf(file, at), address)
				}
			}
		}
	}
}

// signsTransfers reports whether tsig requires a signature of zone transfers. It does for no
// type by default, and of several lines with types the last one counts.
func (b *block) signsTransfers() bool {
	var all bool
	var types []string
	d := dispenser(b.block.Tokens["tsig"])
	for d.Next() {
		d.RemainingArgs() // zones
		for d.NextBlock() {
			if d.Val() != "require" {
				d.RemainingArgs()
				continue
			}
			types = d.RemainingArgs()
			all = all || slices.Index(types, "all") == 0
		}
	}
	return all || slices.Contains(types, "AXFR") && slices.Contains(types, "IXFR")
}
