// SPDX-License-Identifier: Apache-2.0

package guests

import (
	"net"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// deadVLAN tags ports that Neutron's agent has not bound, or cut off (neutron-lib, DEAD_VLAN_TAG).
const deadVLAN = 4095

// local returns an interface's guest without OVN's flows. Neutron's agent must have bound it with placement neutron,
// and databases must have its port.
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

// AttachedMAC returns the source MAC that Neutron's agent allows.
func AttachedMAC(i *vswitch.Interface) (mac [6]byte, ok bool) {
	parsed, err := net.ParseMAC(i.AttachedMAC)
	if err != nil || len(parsed) != len(mac) {
		return mac, false
	}
	return [6]byte(parsed), true
}

// Serves reports whether p, which may be nil, may be a guest. Only placement ovn needs its chassis.
func (c *Config) Serves(p *ovn.Port) bool {
	return p != nil && (p.Local || c.Placement != placement.OVN)
}

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

// isService recognises interfaces of Neutron's DHCP agents and routers. Their external_ids look like a guest's, but
// the switch makes the device and they name no machine (neutron/agent/linux/interface.py, OVSInterfaceDriver).
func isService(i *vswitch.Interface) bool {
	return i.Type == "internal" && i.IfaceID != "" && i.AttachedMAC != "" && i.Machine == ""
}

// services are networks with an agent's port, by id and local VLAN.
type services struct {
	ids  map[string]bool
	tags map[uint16]bool
}

// Any agent's port may have the metadata addresses: no database says which.
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

func (s *services) has(i *vswitch.Interface) bool { return s.ids[i.NetworkID] || s.tags[i.Tag] }
