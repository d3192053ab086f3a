// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"net"
	"net/netip"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// ovnGuests returns the guests that the snapshot has on this chassis.
func ovnGuests(o *bridgeOptions, snapshot *ovn.Snapshot) (guests []flows.Guest) {
	for p := range snapshot.Guests() {
		n := snapshot.Network(p.Network)
		guests = append(guests, flows.Guest{
			GuestKey: flows.GuestKey{Datapath: p.DatapathKey, Port: p.Key},
			Limit:    o.limit(n).ofFlows(),
			Owned:    o.owned(ownedBy(n)),
		})
	}
	return guests
}

// owned returns the resolver addresses of which isOwned reports that a port has them; none if
// it is nil.
func (o *bridgeOptions) owned(isOwned func(netip.Addr) bool) (owned []netip.Addr) {
	if isOwned == nil {
		return nil
	}
	for _, a := range o.Addresses {
		if isOwned(a.Addr()) {
			owned = append(owned, a.Addr())
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

// localGuests returns the ports of the bridge that are to be served: those that have the name
// of a logical port and are no agent's; with placement neutron, those that the agent has
// bound. With a snapshot, they must be in it.
func localGuests(o *bridgeOptions, view *ports.View, snapshot *ovn.Snapshot) (guests []flows.Guest) {
	if view == nil {
		return nil
	}
	services := serviceNetworks(view)
	for i := range view.Interfaces {
		i := &view.Interfaces[i]
		g, owns, ok := localGuest(o, i, snapshot)
		if !ok {
			continue
		}
		metadata := services.has(i)
		g.Owned = o.owned(func(a netip.Addr) bool {
			return metadata && ovn.IsMetadata(a) || owns != nil && owns(a)
		})
		guests = append(guests, g)
	}
	return guests
}

// localGuest returns the guest of an interface, but for Owned, and what owns reports whether a
// port of its network has an address; nil if that is not known. It reports whether the
// interface is to be served.
func localGuest(o *bridgeOptions, i *vswitch.Interface, snapshot *ovn.Snapshot) (g flows.Guest, owns func(netip.Addr) bool, ok bool) {
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
	var n *ovn.Network
	if snapshot != nil {
		p := snapshot.PortByName(i.IfaceID)
		if p == nil {
			return g, nil, false
		}
		n = snapshot.Network(p.Network)
		owns = ownedBy(n)
	}
	g.Limit = o.limit(n).ofFlows()
	return g, owns, true
}

// ownedBy returns what reports whether a port of the network has an address; nil for no
// network.
func ownedBy(n *ovn.Network) func(netip.Addr) bool {
	if n == nil {
		return nil
	}
	return n.Owns
}

// ofFlows returns the limit in the type of package flows.
func (l limit) ofFlows() flows.Limit { return flows.Limit{Rate: l.rate, Burst: l.burst} }
