// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"time"

	"github.com/puntdns/puntdns/ofpunt/placement"
)

// rateDropped takes note of what the switch has dropped of guests by rate. A guest that has gone
// since is left out. It is called at a beat of the lease, on the goroutine of the session.
func (b *Bridge) rateDropped(byGuest map[placement.Key]uint64) {
	book := b.current.Load().Book(b.ports.View())
	for key, packets := range byGuest {
		if g, ok := book.ByKey(key); ok {
			b.punts.RateDropped(&g, packets)
		}
	}
}

// logRefusals logs who was refused what by limits, as far as that is due.
func (b *Bridge) logRefusals(now time.Time) {
	for _, line := range b.refusals.Lines(now) {
		log.Warningf("Bridge %s: %s", b.name, line)
	}
}
