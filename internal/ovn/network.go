// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Network is an immutable logical switch with its names.
type Network struct {
	ID origin.Network
	// Name need not be unique.
	Name string
	// Domain is canonical, from other_config:dns_domain or external_ids:dns_domain. It needs Northbound.
	Domain string
	// DNSMeter limits the switch's DNS packets, zero for no limit. Southbound has limits only for switches
	// with DNS rows.
	DNSMeter Meter
	// Forwards need Requests.Forwards.
	Forwards *Forwards

	names.Directory
	ports *Ports
}

type NetworkData struct {
	ID           origin.Network
	Name, Domain string
	DNSMeter     Meter
	Forwards     *Forwards
	Tables       []*names.Table
	RRs          []*names.RRTable
	Ports        *Ports
	Previous     *Network
}

func NewNetwork(d NetworkData) *Network {
	if d.Ports == nil {
		d.Ports, _ = NewPorts(PortsData{})
	}
	n := &Network{ID: d.ID, Name: d.Name, Domain: d.Domain, DNSMeter: d.DNSMeter, Forwards: d.Forwards, ports: d.Ports}
	previous := new(names.Directory)
	if d.Previous != nil {
		previous = &d.Previous.Directory
	}
	n.Directory = previous.With(d.Tables, d.RRs, d.Ports.hosts)
	return n
}

func (n *Network) WithRetained(retained []*Port) *Network {
	next := *n
	next.ports = n.ports.onlyRetained(retained)
	return &next
}

// Owns reports whether a port has or serves an address: puntdns leaves ARP and neighbour solicitations to the
// port.
//
// No row has a cloud's metadata address. It belongs to the localport of ML2/OVN's metadata agent
// (neutron/agent/ovn/metadata/agent.py) or to the port of Neutron's DHCP agent.
func (n *Network) Owns(addr netip.Addr) bool {
	addr = addr.Unmap()
	_, ok := n.ports.owners[addr]
	return ok || n.ports.metadata && IsMetadata(addr)
}

// HasWorkload reports whether a port other than a router's or a localport has an address. A DNS server there
// belongs to the tenant.
func (n *Network) HasWorkload(addr netip.Addr) bool { return n.ports.owners[addr.Unmap()] }

// Gateways returns the addresses of the switch's routers, IPv4 first, none for more than MaxGateways. It
// omits link-local addresses that OVN derives from a MAC address, and Neutron routers whose external network
// this is. It needs Requests.Gateways.
func (n *Network) Gateways() []netip.Addr { return n.ports.gateways }

type FunctionPort struct {
	Name string
	Key  uint32 // 0 without Southbound
}

// FunctionPorts returns the ports of network functions (options:is-nf), by name.
func (n *Network) FunctionPorts() []FunctionPort { return n.ports.functions }

// IsMetadata reports metadata addresses (neutron-lib, METADATA_V4_IP and METADATA_V6_IP).
func IsMetadata(addr netip.Addr) bool { return addr == metadata4 || addr == metadata6 }

var (
	metadata4 = netip.MustParseAddr("169.254.169.254")
	metadata6 = netip.MustParseAddr("fe80::a9fe:a9fe")
)

// Meter limits DNS packets by control plane protection (ovn-nb(5), Copp). Zero is no limit.
type Meter struct {
	Rate  uint32
	Burst uint32
}

// Ports returns the ports. Equal pointers mean equal ports.
func (n *Network) Ports() *Ports { return n.ports }

func (p *Ports) Guests() []*Port { return p.guests }
