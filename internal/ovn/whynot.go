// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// whyNot returns why a port is no guest of this chassis, "" for a port that is one or can't be one.
func (in *guestInputs) whyNot(port string) string {
	p := in.rows.portNamed[port]
	switch {
	case p == nil:
		return "Southbound has no logical port of this name"
	case !isGuest(p.effectiveKind()):
		return ""
	case in.isHere(p):
		if d := in.rows.datapaths.Get(p.datapath); d == nil || !in.covers(d.network) {
			return "its network has not been read"
		}
		return ""
	case p.chassis == ovsdb.UUID{}:
		return "it is bound to no chassis"
	}
	if c := in.rows.chassis.Get(p.chassis); c != nil {
		return fmt.Sprintf("it is bound to chassis %q", c.name)
	}
	return "it is bound to another chassis"
}

// whyNotByNorthbound is whyNot where Northbound is read alone: each port with an interface here is a guest.
// covers reports whether the rows of a network are all there.
func whyNotByNorthbound(rows *northbound, port string, covers func(origin.Network) bool) string {
	p := rows.portNamed[port]
	if p == nil {
		return "Northbound has no logical port of this name"
	}
	of, known := rows.switchOf[p.id]
	if isGuest(effectiveKind(p.kind, p.owner, p.function)) && (!known || !covers(origin.Network(of))) {
		return "its network has not been read"
	}
	return ""
}
