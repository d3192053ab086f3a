// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// identify is punt.Config.Identify: it finds who has sent a packet, by what the switch and the
// databases say. It reports whether that is certain.
func (s *server) identify(in *openflow.PacketIn, owner *vswitch.Interface, tagged bool) (g punt.Guest, ok bool) {
	if owner == nil {
		return g, false
	}
	if s.options.Placement == placement.OVN {
		p := s.source.Snapshot().Guest(uint32(in.Metadata), in.Regs[placement.RegInPort])
		if p == nil || !p.Local {
			return g, false
		}
		g = punt.Guest{Network: p.Network, Port: p.Name, Switch: p.SwitchName}
		iface := p.Name
		if p.IsContainer() {
			g.Tag, iface = p.Tag, p.Parent
		}
		// ovn-controller lags behind the switch: a number that another port has by now
		// may carry the registers of the port before.
		return g, owner.IfaceID == iface
	}
	g = punt.Guest{Port: owner.IfaceID, Switch: owner.NetworkID}
	if s.source != nil {
		p := s.source.Snapshot().PortByName(g.Port)
		switch {
		case p == nil:
		case tagged:
			// It may be from a container in the VM, perhaps of another tenant. The tag
			// would tell, but nobody has checked it.
			return g, false
		default:
			g.Network, g.Switch = p.Network, p.SwitchName
		}
	}
	return g, true
}
