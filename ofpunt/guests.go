// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"cmp"
	"net"
	"net/netip"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// ovnGuests lists the guests that the snapshot has on this chassis.
func ovnGuests(l *guestList, snapshot *ovn.Snapshot) {
	var of origin.Origin // who the guest is to limits, one after the other
	for p := range snapshot.Guests() {
		n := snapshot.Network(p.Network)
		g := flows.Guest{Guest: placement.Guest{Key: placement.Key{Datapath: p.DatapathKey, Port: p.Key}}}
		of = origin.Origin{Network: p.Network, Switch: p.SwitchName, Port: p.Name, Attributes: p}
		if !p.IsExternal() {
			of.InPort = l.numbers[p.Name]
			if p.IsContainer() {
				of.VLAN, of.InPort = p.Tag, l.numbers[p.Parent]
			}
			g.Limit = l.rate(&of, n)
			l.add(g, &of, p, ownedBy(n))
			continue
		}
		for _, localnet := range p.Localnets() {
			of.VLAN, of.InPort = localnet.Tag, l.numbers[localnet.Name]
			g.Limit = l.rate(&of, n)
			for _, mac := range p.MACs {
				// Of two ports with one address only one is ever taken for the sender.
				if sender, _ := snapshot.External(p.DatapathKey, localnet.Key, mac); sender != p {
					continue
				}
				g.Port, g.MAC = localnet.Key, mac
				l.add(g, &of, p, ownedBy(n))
			}
		}
	}
}

// owned returns the resolver addresses, with those of a guest itself, of which isOwned reports
// that a port has them; none if it is nil.
func (o *bridgeOptions) owned(own []netip.AddrPort, isOwned func(netip.Addr) bool) (owned []netip.Addr) {
	if isOwned == nil {
		return nil
	}
	for _, list := range [][]netip.AddrPort{o.Addresses, own} {
		for _, a := range list {
			if isOwned(a.Addr()) {
				owned = append(owned, a.Addr())
			}
		}
	}
	return owned
}

// deadVLAN is the tag that Neutron's agent gives a port that it has not bound, or that is to
// be cut off (neutron-lib, DEAD_VLAN_TAG). Others get the VLAN of their network on this node.
const deadVLAN = 4095

// isService reports whether the interface is of a DHCP agent or a router of Neutron's, whose
// external_ids look like those of guests. The switch makes the device for these agents
// (neutron/agent/linux/interface.py, OVSInterfaceDriver), and they name no machine.
func isService(i *vswitch.Interface) bool {
	return i.Type == "internal" && i.IfaceID != "" && i.AttachedMAC != "" && i.Machine == ""
}

// services are the networks in which such an agent has a port here, by their ids and by
// their VLANs on this node.
type services struct {
	ids  map[string]bool
	tags map[uint16]bool
}

// serviceNetworks finds the networks where an agent may have the addresses of the metadata
// service: no database tells which agent has them.
func serviceNetworks(view *ports.View) services {
	s := services{map[string]bool{}, map[uint16]bool{}}
	for i := range view.Interfaces {
		if i := &view.Interfaces[i]; isService(i) && i.Tag != deadVLAN {
			s.ids[i.NetworkID], s.tags[i.Tag] = true, true
		}
	}
	delete(s.ids, "")
	delete(s.tags, 0)
	return s
}

// has reports whether the interface is in one of the networks.
func (s services) has(i *vswitch.Interface) bool { return s.ids[i.NetworkID] || s.tags[i.Tag] }

// localGuests lists the ports of the bridge that are to be served: those that have the name
// of a logical port and are no agent's; with placement neutron, those that the agent has
// bound. With a snapshot, they must be in it.
func localGuests(l *guestList, view *ports.View) {
	if view == nil {
		return
	}
	services := serviceNetworks(view)
	var of origin.Origin // as in ovnGuests
	for i := range view.Interfaces {
		i := &view.Interfaces[i]
		g, p, ok := localGuest(l.options, i, l.snapshot)
		if !ok {
			continue
		}
		metadata, owns := services.has(i), (func(netip.Addr) bool)(nil)
		var n *ovn.Network
		of = origin.Origin{InPort: i.OFPort, Switch: i.NetworkID, Port: i.IfaceID, Attributes: i}
		if p != nil {
			n = l.snapshot.Network(p.Network)
			owns = ownedBy(n)
			of.Network, of.Switch, of.Attributes = p.Network, p.SwitchName, p
		}
		g.Limit = l.rate(&of, n)
		l.add(g, &of, p, func(a netip.Addr) bool {
			return metadata && ovn.IsMetadata(a) || owns != nil && owns(a)
		})
	}
}

// localGuest returns the guest of an interface, but for its limit and addresses, and its logical
// port, nil if that is not known. It reports whether the interface is to be served.
func localGuest(o *bridgeOptions, i *vswitch.Interface, snapshot *ovn.Snapshot) (g flows.Guest, p *ovn.Port, ok bool) {
	if i.OFPort == 0 || i.IfaceID == "" || i.Tag == deadVLAN || isService(i) {
		return g, nil, false
	}
	g.Port = i.OFPort
	if o.Placement == placement.Neutron {
		mac, err := net.ParseMAC(i.AttachedMAC)
		if i.Tag == 0 || err != nil || len(mac) != len(g.MAC) {
			return g, nil, false
		}
		g.MAC = [6]byte(mac)
	}
	if snapshot != nil {
		if p = snapshot.PortByName(i.IfaceID); !o.serves(p) {
			return g, nil, false
		}
	}
	return g, p, true
}

// serves reports whether a port of a snapshot, nil for none, may be a guest. The chassis that it is bound to
// counts with placement ovn only.
func (o *bridgeOptions) serves(p *ovn.Port) bool {
	return p != nil && (p.Local || o.Placement != placement.OVN)
}

// ownedBy returns what reports whether a port of the network has an address; nil for no
// network.
func ownedBy(n *ovn.Network) func(netip.Addr) bool {
	if n == nil {
		return nil
	}
	return n.Owns
}

// portNumbers returns the OpenFlow ports of a bridge by the logical ports that they are of.
func portNumbers(view *ports.View) map[string]uint32 {
	numbers := make(map[string]uint32)
	if view == nil {
		return numbers
	}
	for i := range view.Interfaces {
		if i := &view.Interfaces[i]; i.OFPort != 0 {
			numbers[cmp.Or(i.IfaceID, i.Localnet)] = i.OFPort
		}
	}
	return numbers
}

// rate returns the rate limit of a guest of a network, nil where that is not known: that of its
// label, else that of the bridge or the network.
func (l *guestList) rate(of *origin.Origin, n *ovn.Network) flows.Limit {
	if i := l.limits.Find(of); i >= 0 {
		if by := &l.limits.limits[i]; by.RateGiven {
			limit := by.Rate.ofFlows()
			limit.Name = by.String()
			return limit
		}
	}
	return l.options.rate(n).ofFlows()
}

// ofFlows returns the limit in the type of package flows.
func (l rateLimit) ofFlows() flows.Limit { return flows.Limit{Rate: l.rate, Burst: l.burst} }
