// SPDX-License-Identifier: Apache-2.0

package guests

import (
	"net"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// Without OVN in the switch a guest is an interface of the bridge.

// deadVLAN is the tag of a port that Neutron's agent has not bound, or has cut off (neutron-lib,
// DEAD_VLAN_TAG). Other ports have the VLAN of their network on this node.
const deadVLAN = 4095

// local returns the guest of an interface. It reports whether the interface is served: it has the name of a
// logical port and no agent of Neutron's owns it; with placement neutron the agent has bound it; with
// databases they have its port.
func (b Book) local(i *vswitch.Interface) (g Guest, ok bool) {
	if i.OFPort == 0 || i.IfaceID == "" || i.Tag == deadVLAN || isService(i) {
		return g, false
	}
	g = Guest{Key: placement.Key{Port: i.OFPort}, Interface: i, book: b}
	if b.rules.Placement == placement.Neutron {
		if g.Key.MAC, ok = AttachedMAC(i); !ok || i.Tag == 0 {
			return g, false
		}
	}
	if b.snapshot == nil {
		return g, true
	}
	g.Port = b.snapshot.PortByName(i.IfaceID)
	return g, b.rules.Serves(g.Port)
}

// AttachedMAC returns the source address that Neutron's agent lets the port of an interface have.
func AttachedMAC(i *vswitch.Interface) (mac [6]byte, ok bool) {
	parsed, err := net.ParseMAC(i.AttachedMAC)
	if err != nil || len(parsed) != len(mac) {
		return mac, false
	}
	return [6]byte(parsed), true
}

// Serves reports whether a port of a snapshot, nil for none, may be a guest. The chassis that it is bound to
// counts with placement ovn only.
func (c *Config) Serves(p *ovn.Port) bool {
	return p != nil && (p.Local || c.Placement != placement.OVN)
}

// allLocal is All where a guest is an interface of the bridge.
func (b Book) allLocal(yield func(Guest) bool) {
	if b.view == nil {
		return
	}
	s := servicesOf(b.view)
	for i := range b.view.Interfaces {
		if g, ok := b.local(&b.view.Interfaces[i]); ok {
			g.services = &s
			if !yield(g) {
				return
			}
		}
	}
}

// isService reports whether the interface is of a DHCP agent or a router of Neutron's, whose
// external_ids look like the external_ids of guests. The switch makes the device for these agents
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

// servicesOf finds the networks where an agent may have the addresses of the metadata
// service: no database has which agent that is.
func servicesOf(view *ports.View) services {
	s := services{map[string]bool{}, map[uint16]bool{}}
	if view == nil {
		return s
	}
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
func (s *services) has(i *vswitch.Interface) bool { return s.ids[i.NetworkID] || s.tags[i.Tag] }
