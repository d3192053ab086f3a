// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"time"

	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// rateDropped takes note of what the switch has dropped of guests by rate. A guest that has gone
// since is left out. It is called at a beat of the lease, on the goroutine of the session.
func (b *bridge) rateDropped(byGuest map[placement.Key]uint64) {
	srv := b.current.Load()
	for key, packets := range byGuest {
		if g, ok := srv.guestOf(key, b); ok {
			b.punts.RateDropped(g, packets)
		}
	}
}

// guestOf returns the guest that the switch knows by a key. It reports whether there is one.
func (s *server) guestOf(key placement.Key, b *bridge) (g punt.Guest, ok bool) {
	if s.options.Placement == placement.OVN {
		snapshot := s.source.Snapshot()
		p := snapshot.Guest(key.Datapath, key.Port)
		if key.MAC != ([6]byte{}) {
			p, _ = snapshot.External(key.Datapath, key.Port, key.MAC)
		}
		if p == nil {
			return g, false
		}
		return punt.Guest{Network: p.Network, Port: p.Name, Switch: p.SwitchName}, true
	}
	owner := b.ports.Owner(key.Port)
	if owner == nil {
		return g, false
	}
	g = punt.Guest{Port: owner.IfaceID, Switch: owner.NetworkID}
	if s.source == nil {
		return g, true
	}
	if p := s.source.Snapshot().PortByName(owner.IfaceID); p != nil {
		g.Network, g.Switch = p.Network, p.SwitchName
	}
	return g, true
}

// logRefusals logs who was refused what by limits, as far as that is due.
func (b *bridge) logRefusals(now time.Time) {
	for _, line := range b.refusals.Lines(now) {
		log.Warningf("Bridge %s: %s", b.name, line)
	}
}
