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

// ovnGuests are the guests that the snapshot has on this chassis.
func ovnGuests(o *Options, snapshot *ovn.Snapshot) (guests []flows.Guest) {
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

// owned are the resolver addresses that owns reports, none if it is nil.
func (o *Options) owned(owns func(netip.Addr) bool) (owned []netip.Addr) {
	if owns == nil {
		return nil
	}
	for _, a := range o.Addresses {
		if owns(a.Addr()) {
			owned = append(owned, a.Addr())
		}
	}
	return owned
}

// Tags of Neutron's agent: it gives each port that it has bound the VLAN of its
// network on this node, and those that it has not, or that are to be cut off, the
// dead one (neutron-lib, DEAD_VLAN_TAG).
const deadVLAN = 4095

// isService reports whether the interface is of a DHCP agent or a router of Neutron's,
// which carry the marks of guests. These agents have the switch make the device
// (neutron/agent/linux/interface.py, OVSInterfaceDriver), and no machine is named.
func isService(i *vswitch.Interface) bool {
	return i.Type == "internal" && i.IfaceID != "" && i.AttachedMAC != "" && i.Machine == ""
}

// services are the networks that such an agent has a port of here, by their ids and
// by the VLAN that stands for a network on this node.
type services struct {
	ids  map[string]bool
	tags map[uint16]bool
}

// servedNetworks finds the networks where an agent may have the addresses of the
// metadata service, which no database tells.
func servedNetworks(view *ports.View) services {
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

func (s services) has(i *vswitch.Interface) bool { return s.ids[i.NetworkID] || s.tags[i.Tag] }

// localGuests are the ports of the bridge that are to be served: those that have the name
// of a logical port and are no agent's, with Neutron's agent those that it has bound. With a
// snapshot, they must be in it.
func localGuests(o *Options, view *ports.View, snapshot *ovn.Snapshot) (guests []flows.Guest) {
	if view == nil {
		return nil
	}
	served := servedNetworks(view)
	for i := range view.Interfaces {
		i := &view.Interfaces[i]
		g, owns, ok := localGuest(o, i, snapshot)
		if !ok {
			continue
		}
		metadata := served.has(i)
		g.Owned = o.owned(func(a netip.Addr) bool {
			return metadata && ovn.IsMetadata(a) || owns != nil && owns(a)
		})
		guests = append(guests, g)
	}
	return guests
}

// localGuest makes a guest of an interface, without what it does not own. It reports
// whether the interface is to be served.
func localGuest(o *Options, i *vswitch.Interface, snapshot *ovn.Snapshot) (g flows.Guest, owns func(netip.Addr) bool, ok bool) {
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

// ownedBy reports the addresses that ports of the network have.
func ownedBy(n *ovn.Network) func(netip.Addr) bool {
	if n == nil {
		return nil
	}
	return n.Owns
}

func (l limit) ofFlows() flows.Limit { return flows.Limit{Rate: l.rate, Burst: l.burst} }
