// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"fmt"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// WhyNot returns why a port is no guest of this chassis, "" for a guest or a type that is never a guest.
func (in *Inputs) WhyNot(port string) string {
	p := in.Rows.PortNamed[port]
	switch {
	case p == nil:
		return "Southbound has no logical port of this name"
	case !ovn.IsGuestType(p.PortType()):
		return ""
	case in.isHere(p):
		if d := in.Rows.Datapaths.Get(p.Datapath); d == nil || !in.Covers(d.Network) {
			return "its network has not been read"
		}
		return ""
	case p.Chassis == ovsdb.UUID{}:
		return "it is bound to no chassis"
	}
	if c := in.Rows.Chassis.Get(p.Chassis); c != nil {
		return fmt.Sprintf("it is bound to chassis %q", c.Name)
	}
	return "it is bound to another chassis"
}

// WhyNotByNorthbound is WhyNot with Northbound alone.
func WhyNotByNorthbound(rows *topology.Northbound, port string, covers func(origin.Network) bool) string {
	p := rows.PortNamed[port]
	if p == nil {
		return "Northbound has no logical port of this name"
	}
	of, known := rows.SwitchOf[p.ID]
	if ovn.IsGuestType(p.PortType()) && (!known || !covers(origin.Network(of))) {
		return "its network has not been read"
	}
	return ""
}
