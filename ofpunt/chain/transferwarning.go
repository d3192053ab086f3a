// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"slices"

	"github.com/coredns/caddy/caddyfile"
)

// warnOfTransfers warns of transfers to an address in a block for any network: each tenant may give a guest that
// address.
func (b *Block) warnOfTransfers() {
	if len(b.source.Tokens["view"]) > 0 || b.signsTransfers() {
		return
	}
	d := b.dispenser("transfer")
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
					log.Warningf("%s - transfer to %s: a guest of any network may have that address; expected a view of one network in the block, or tsig with require AXFR IXFR", b.locationOf(at), address)
				}
			}
		}
	}
}

// signsTransfers: by default *tsig* requires no signature; of several lines with types the last counts.
func (b *Block) signsTransfers() bool {
	var all bool
	var types []string
	d := b.dispenser("tsig")
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
