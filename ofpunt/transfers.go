// SPDX-License-Identifier: Apache-2.0

package ofpunt

import "github.com/coredns/caddy/caddyfile"

// warnOfTransfers warns of zone transfers to addresses in a block that is for the guests of any
// network: each tenant may give a guest that address, or two of them. file has the block.
func (b *block) warnOfTransfers(file string) {
	if len(b.block.Tokens["view"])+len(b.block.Tokens["tsig"]) > 0 {
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
