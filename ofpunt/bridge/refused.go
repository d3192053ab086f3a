// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"time"

	"github.com/puntdns/puntdns/ofpunt/placement"
)

// rateDropped counts the packets of guests that the switch has dropped by rate. It leaves out a guest that
// has gone since. The session calls it at a heartbeat of the lease.
func (b *Bridge) rateDropped(byGuest map[placement.Key]uint64) {
	book := b.current.Load().Book(b.ports.View())
	for key, packets := range byGuest {
		if g, ok := book.ByKey(key); ok {
			b.punts.RateDropped(&g, packets)
		}
	}
}

// logRefusals logs the refusals by limits that are due.
func (b *Bridge) logRefusals(now time.Time) {
	for _, line := range b.refusals.Lines(now) {
		log.Warningf("Bridge %s: %s", b.name, line)
	}
}
