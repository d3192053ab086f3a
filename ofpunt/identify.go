// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"net/netip"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/frame"
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
		p, localnet := ovnPort(s.source.Snapshot(), in, owner)
		if p == nil || !p.Local {
			return g, false
		}
		g = punt.Guest{Network: p.Network, Port: p.Name, Switch: p.SwitchName, Attributes: p}
		if localnet != nil {
			g.Tag = localnet.Tag
			return g, true
		}
		iface := p.Name
		if p.IsContainer() {
			g.Tag, iface = p.Tag, p.Parent
		}
		// ovn-controller lags behind the switch: a number that another port has by now
		// may carry the registers of the port before.
		return g, owner.IfaceID == iface
	}
	g = punt.Guest{Port: owner.IfaceID, Switch: owner.NetworkID}
	if s.source == nil {
		g.Attributes = owner
	} else {
		p := s.source.Snapshot().PortByName(g.Port)
		switch {
		case p == nil:
		case tagged:
			// It may be from a container in the VM, perhaps of another tenant. The tag
			// would tell, but nobody has checked it.
			return g, false
		default:
			g.Network, g.Switch, g.Attributes = p.Network, p.SwitchName, p
		}
	}
	return g, true
}

// ovnPort returns the port that a packet of OVN's pipeline came from, nil if there is none. If
// that is an external port which this chassis acts for, localnet is where the packet has
// entered. owner is that of the OpenFlow port, nil if it is not known.
func ovnPort(snapshot *ovn.Snapshot, in *openflow.PacketIn, owner *vswitch.Interface) (p *ovn.Port, localnet *ovn.Localnet) {
	datapath, port := uint32(in.Metadata), in.Regs[placement.RegInPort]
	if owner == nil || owner.Localnet == "" {
		return snapshot.Guest(datapath, port), nil
	}
	mac, ok := frame.SenderMAC(in.Data)
	if !ok {
		return nil, nil
	}
	if p, localnet = snapshot.External(datapath, port, mac); p == nil || localnet.Name != owner.Localnet {
		return nil, nil
	}
	return p, localnet
}

// hasAddress is punt.Config.HasAddress: it reports whether an address is one that the sender
// of a packet has of its own.
func (s *server) hasAddress(in *openflow.PacketIn, owner *vswitch.Interface, a netip.AddrPort) bool {
	snapshot := s.source.Snapshot()
	p := s.portOf(snapshot, in, owner)
	return p != nil && a.Port() == placement.DNSPort && s.options.isOwnAddress(snapshot, p, a.Addr())
}

// owns is punt.Config.Owns: it reports whether a port of the sender's network has an address.
func (s *server) owns(in *openflow.PacketIn, owner *vswitch.Interface, a netip.Addr) bool {
	n := s.networkOf(in, owner)
	return n != nil && n.Owns(a)
}

// hasWorkload is punt.Config.HasWorkload: it reports whether a workload of the sender's network has
// an address.
func (s *server) hasWorkload(in *openflow.PacketIn, owner *vswitch.Interface, a netip.Addr) bool {
	n := s.networkOf(in, owner)
	return n != nil && n.HasWorkload(a)
}

// networkOf returns the network of the sender of a packet, nil if that is not known.
func (s *server) networkOf(in *openflow.PacketIn, owner *vswitch.Interface) *ovn.Network {
	snapshot := s.source.Snapshot()
	if p := s.portOf(snapshot, in, owner); p != nil {
		return snapshot.Network(p.Network)
	}
	return nil
}

// portOf returns the logical port of the sender of a packet, nil if it is not known.
func (s *server) portOf(snapshot *ovn.Snapshot, in *openflow.PacketIn, owner *vswitch.Interface) *ovn.Port {
	switch {
	case s.options.Placement == placement.OVN:
		p, _ := ovnPort(snapshot, in, owner)
		return p
	case owner != nil:
		return snapshot.PortByName(owner.IfaceID)
	}
	return nil
}
