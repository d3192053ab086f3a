// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
)

// An external port is a host without an interface on any chassis, such as a bare-metal machine. Its packets
// enter through a localnet port on each chassis with the physical network. Only the chassis to which
// ovn-controller binds the port answers (ovn-nb(5)).
//
// Register 14 has the key of the localnet port, so the source address identifies the host, as in OVN's DHCP
// (northd/northd.c, build_dhcpv4_options_flows).

// Localnet is a port that joins a switch to a physical network (ovn-nb(5)). It is immutable.
type Localnet struct {
	// Name is Port_Binding.logical_port, and external_ids:ovn-localnet-port of the patch port.
	Name string
	// Key is register 14 of packets that enter through the port.
	Key uint32
	// Tag is the VLAN ID in the physical network, or 0. The switch strips it.
	Tag uint16
}

func (p *Port) IsExternal() bool { return p.Type == TypeExternal }

type externalKey struct {
	datapath, localnet uint32
	mac                origin.MAC
}

type externalPort struct {
	port     *Port
	localnet *Localnet
}

type localnetPort struct {
	Localnet
	service bool
}

func (b *portsBuilder) addExternal() {
	for _, all := range b.localnets {
		slices.SortFunc(all, func(x, y localnetPort) int { return cmp.Compare(x.Name, y.Name) })
	}
	var all []*Port
	for _, p := range b.out.guests {
		if p.IsExternal() {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(x, y *Port) int { return cmp.Compare(x.Name, y.Name) })
	for _, p := range all {
		if all := b.localnetsOf(p); len(all) > 0 {
			p.setLocalnets(all)
		}
		for _, taken := range b.out.addExternal(p) {
			b.unserved(p, ": external port %q has the MAC address %s too", taken.port.Name, taken.mac)
		}
	}
}

type takenMAC struct {
	port *Port
	mac  origin.MAC
}

// addExternal must run before p is shared. taken lists the ports that have one of the MAC addresses.
func (p *Ports) addExternal(port *Port) (taken []takenMAC) {
	if p.external == nil {
		p.external = make(map[externalKey]externalPort)
	}
	localnets := port.Localnets()
	for i := range localnets {
		l := &localnets[i]
		for _, mac := range port.MACs {
			key := externalKey{port.DatapathKey, l.Key, mac}
			if first, ok := p.external[key]; !ok {
				p.external[key] = externalPort{port, l}
			} else if first.port != port {
				taken = append(taken, takenMAC{first.port, mac})
			}
		}
	}
	return taken
}

func (b *portsBuilder) localnetsOf(p *Port) (all []Localnet) {
	if p.DatapathKey == 0 {
		return nil
	}
	if len(p.MACs) == 0 {
		b.unserved(p, ": it has no MAC address")
	}
	if len(b.localnets[p.DatapathKey]) == 0 {
		b.unserved(p, ": its switch has no localnet port")
	}
	for _, l := range b.localnets[p.DatapathKey] {
		if l.service && l.Tag != 0 {
			b.unserved(p, " by localnet port %q: ethtype 802.11ad, expected 802.11q", l.Name)
			continue
		}
		all = append(all, l.Localnet)
	}
	return all
}

func (b *portsBuilder) unserved(p *Port, format string, args ...any) {
	b.problems = append(b.problems, fmt.Sprintf("external port %q is not served"+format, append([]any{p.Name}, args...)...))
}

// External returns the external port of a punt and its localnet port, or nil. datapathKey is the packet's
// metadata, localnetKey its register 14.
func (s *Snapshot) External(datapathKey, localnetKey uint32, mac origin.MAC) (*Port, *Localnet) {
	n, ok := s.byKey.Get(datapathKey)
	if !ok {
		return nil, nil
	}
	e := n.ports.external[externalKey{datapathKey, localnetKey, mac}]
	return e.port, e.localnet
}
