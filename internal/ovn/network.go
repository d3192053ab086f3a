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
	// Domain is other_config:dns_domain or external_ids:dns_domain, fully qualified and in lower case, ""
	// without Northbound.
	Domain string
	// DNSMeter is the control plane protection limit for the switch's DNS packets, zero for none. Southbound
	// only has limits of switches with DNS rows.
	DNSMeter Meter
	// Forwards are the network's forwarded zones, nil for none. They need Requests.Forwards.
	Forwards *Forwards

	// Directory has the names of the DNS rows, in the order of their UUIDs, and of the ports.
	names.Directory
	ports *Ports
}

// NetworkData describes a Network.
type NetworkData struct {
	ID           origin.Network
	Name, Domain string
	DNSMeter     Meter
	Forwards     *Forwards
	// Tables and RRs are the DNS rows, in the order of their UUIDs.
	Tables []*names.Table
	RRs    []*names.RRTable
	// Ports may be nil. Their PortsData has the same ID and name.
	Ports *Ports
}

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

// WithRetained returns the network with retained guests as its only guests.
func (n *Network) WithRetained(retained []*Port) *Network {
	next := *n
	next.ports = n.ports.onlyRetained(retained)
	return &next
}

// Owns reports whether a port of the switch has or serves an address. puntdns leaves ARP and neighbour
// solicitations for the address to the port.
//
// No row has the address of a cloud's metadata service. It belongs to the localport of ML2/OVN's metadata agent
// (neutron/agent/ovn/metadata/agent.py), and sometimes to the port of Neutron's DHCP agent.
func (n *Network) Owns(addr netip.Addr) bool {
	addr = addr.Unmap()
	_, ok := n.ports.owners[addr]
	return ok || n.ports.metadata && IsMetadata(addr)
}

// HasWorkload reports whether a port of the switch, other than a router's or a localport, has an address. A DNS
// server at the address belongs to the tenant.
func (n *Network) HasWorkload(addr netip.Addr) bool { return n.ports.owners[addr.Unmap()] }

// Gateways returns the addresses of the routers on the switch, sorted, IPv4 first, none if there are more than
// 32. It needs Requests.Gateways. It omits link-local addresses that OVN derives from a MAC address, and
// Neutron routers whose external network this is.
func (n *Network) Gateways() []netip.Addr { return n.ports.gateways }

// FunctionPort is a logical port through which guests' packets go to a network function.
type FunctionPort struct {
	Name string
	Key  uint32 // Port_Binding.tunnel_key, 0 without Southbound
}

// FunctionPorts returns the ports of network functions on the switch (options:is-nf), sorted by name.
func (n *Network) FunctionPorts() []FunctionPort { return n.ports.functions }

// IsMetadata reports whether an address is a metadata service's (neutron-lib, METADATA_V4_IP and
// METADATA_V6_IP).
func IsMetadata(addr netip.Addr) bool { return addr == metadata4 || addr == metadata6 }

var (
	metadata4 = netip.MustParseAddr("169.254.169.254")
	metadata6 = netip.MustParseAddr("fe80::a9fe:a9fe")
)

// Meter is a limit of control plane protection (ovn-nb(5), Copp) for DNS packets, zero for no limit.
type Meter struct {
	// Rate is in packets per second.
	Rate uint32
	// Burst is in packets, 0 for a meter without bursts.
	Burst uint32
}

// Ports returns the ports of the switch. Versions of a network with equal Ports have equal ports.
func (n *Network) Ports() *Ports { return n.ports }

// Guests returns the guests of the local chassis, including retained guests.
func (p *Ports) Guests() []*Port { return p.guests }
