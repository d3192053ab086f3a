// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Network is a logical switch with its names. It is immutable.
type Network struct {
	// ID is the UUID of the Northbound Logical_Switch.
	ID origin.Network
	// Name is the Logical_Switch.name, which need not be unique.
	Name string
	// Domain is other_config:dns_domain or external_ids:dns_domain, fully qualified and in lower
	// case, "" without Northbound.
	Domain string
	// DNSMeter is the limit of control plane protection for the switch's DNS packets, zero
	// for none. Southbound only has limits of switches with DNS rows.
	DNSMeter Meter
	// Forwards are the zones whose queries go to servers of the network's own, nil for none. They need
	// Requests.Forwards.
	Forwards *Forwards

	// Directory has the names of the DNS rows, in the order of their UUIDs, and of the ports.
	names.Directory
	ports *Ports
}

// NetworkData describes a logical switch. The fields that Network has too are as there.
type NetworkData struct {
	ID           origin.Network
	Name, Domain string
	DNSMeter     Meter
	Forwards     *Forwards
	// Tables and RRs are the DNS rows, in the order of their UUIDs.
	Tables []*names.Table
	RRs    []*names.RRTable
	// Ports are the ports, nil for none. Their PortsData has the same ID and name.
	Ports *Ports
}

// NewNetwork returns a network.
func NewNetwork(d NetworkData) *Network {
	if d.Ports == nil {
		d.Ports, _ = NewPorts(PortsData{})
	}
	n := &Network{ID: d.ID, Name: d.Name, Domain: d.Domain, DNSMeter: d.DNSMeter, Forwards: d.Forwards, ports: d.Ports}
	n.Directory = names.NewDirectory(d.Tables, d.Ports.hosts)
	if len(d.RRs) > 0 {
		n.Directory = n.Directory.WithRRs(d.RRs)
	}
	return n
}

// WithRetained returns the network as it was, with retained guests in the place of all guests.
func (n *Network) WithRetained(retained []*Port) *Network {
	next := *n
	next.ports = n.ports.onlyRetained(retained)
	return &next
}

// Owns reports whether a port of the switch has or serves an address. puntdns leaves ARP and neighbour
// solicitations for such an address to the port.
//
// No row says where the metadata service of a cloud is. The localport of ML2/OVN's metadata agent has its
// addresses (neutron/agent/ovn/metadata/agent.py), and the port of Neutron's DHCP agent may have them.
func (n *Network) Owns(addr netip.Addr) bool {
	addr = addr.Unmap()
	_, ok := n.ports.owners[addr]
	return ok || n.ports.metadata && IsMetadata(addr)
}

// HasWorkload reports whether a port of the switch, other than a router's or a localport, has an address.
// A DNS server at the address is the tenant's own.
func (n *Network) HasWorkload(addr netip.Addr) bool { return n.ports.owners[addr.Unmap()] }

// Gateways returns the addresses of the routers on the switch, sorted, IPv4 first. It needs
// Requests.Gateways. The link-local addresses that OVN makes of a MAC are left out, and so are the routers
// of Neutron for which the network is the external one. A switch with more than 32 addresses has none.
func (n *Network) Gateways() []netip.Addr { return n.ports.gateways }

// FunctionPort is a logical port through which packets of guests go to a network function.
type FunctionPort struct {
	Name string
	Key  uint32 // Port_Binding.tunnel_key, 0 without Southbound
}

// FunctionPorts returns the ports of network functions on the switch (options:is-nf), sorted by name.
func (n *Network) FunctionPorts() []FunctionPort { return n.ports.functions }

// IsMetadata reports whether an address is one of the metadata service of clouds
// (neutron-lib, METADATA_V4_IP and METADATA_V6_IP).
func IsMetadata(addr netip.Addr) bool { return addr == metadata4 || addr == metadata6 }

var (
	metadata4 = netip.MustParseAddr("169.254.169.254")
	metadata6 = netip.MustParseAddr("fe80::a9fe:a9fe")
)

// Meter is the limit of control plane protection (ovn-nb(5), Copp) for the DNS packets of a
// switch. The zero value is no limit.
type Meter struct {
	// Rate is in packets per second.
	Rate uint32
	// Burst is in packets; 0 is for a meter without one.
	Burst uint32
}

// Ports returns the ports of the switch. A later version of the network with the same Ports has the same ports.
func (n *Network) Ports() *Ports { return n.ports }

// Guests returns the ports that are guests of the local chassis, and retained guests.
func (p *Ports) Guests() []*Port { return p.guests }
