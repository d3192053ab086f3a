// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"time"

	"github.com/puntdns/puntdns/ofpunt/placement"
)

// rateDropped records packets that the switch dropped by rate, at each heartbeat. It skips guests that are gone.
func (b *Bridge) rateDropped(byGuest map[placement.Key]uint64) {
	book := b.current.Load().Book(b.ports.View())
	for key, packets := range byGuest {
		if g, ok := book.ByKey(key); ok {
			b.punts.RateDropped(&g, packets)
		}
	}
}

func (b *Bridge) logRefusals(now time.Time) {
	for _, line := range b.refusals.Lines(now) {
		log.Warningf("Bridge %s: %s", b.name, line)
	}
}
