// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net"
	"net/netip"
	"slices"
)

// Guests are the guests of all bridges, and the interfaces that are not served.
type Guests struct {
	// Guests and Unserved are sorted by bridge and port.
	Guests   []Guest    `json:"guests"`
	Unserved []Unserved `json:"unserved"`
	// Errors say which counters are missing, and why.
	Errors []string `json:"errors,omitempty"`
}

// Find returns the guests of a word, each port of a bridge once: by logical port, else interface, address, or
// MAC address. Tenants may share addresses.
func (all *Guests) Find(word string) (found []*Guest) {
	for _, means := range []func(*Guest) bool{
		func(g *Guest) bool { return g.Port == word },
		func(g *Guest) bool { return g.Interface == word && g.VLAN == 0 },
		func(g *Guest) bool { return hasAddress(g.Addresses, word) },
		func(g *Guest) bool { return hasMAC(g.MACs, word) },
	} {
		for i := range all.Guests {
			// An external port is listed for each address and way in.
			if g := &all.Guests[i]; means(g) && !slices.ContainsFunc(found, g.isSamePort) {
				found = append(found, g)
			}
		}
		if found != nil {
			break
		}
	}
	return found
}

// DHCPResolvers returns the resolver addresses that DHCP can announce: IPv4 at port 53.
func (g *Guest) DHCPResolvers() (all []netip.Addr) {
	for _, r := range g.Resolvers {
		if a, err := netip.ParseAddrPort(r); err == nil && a.Addr().Is4() && a.Port() == 53 {
			all = append(all, a.Addr())
		}
	}
	return all
}

func (g *Guest) isSamePort(o *Guest) bool { return g.Port == o.Port && g.Bridge == o.Bridge }

func hasAddress(all []string, word string) bool {
	a, err := netip.ParseAddr(word)
	return err == nil && slices.Contains(all, a.String())
}

func hasMAC(all []string, word string) bool {
	mac, err := net.ParseMAC(word)
	return err == nil && slices.Contains(all, mac.String())
}

// Guest is a guest that is served.
type Guest struct {
	Bridge string `json:"bridge"`
	// Port is the logical port, Switch the name of its network.
	Port   string `json:"port"`
	Switch string `json:"switch,omitempty"`
	// Network is the UUID of the switch.
	Network string `json:"network,omitempty"`
	// InPort is the OpenFlow port, VLAN a container's or an external port's tag.
	InPort    uint32   `json:"in_port,omitempty"`
	VLAN      uint16   `json:"vlan,omitempty"`
	Interface string   `json:"interface,omitempty"`
	MACs      []string `json:"macs"`
	Addresses []string `json:"addresses"`
	// DatapathKey and PortKey are OVN's tunnel keys.
	DatapathKey uint32 `json:"datapath_key,omitempty"`
	PortKey     uint32 `json:"port_key,omitempty"`
	// Resolvers are the resolver addresses with ports; "any" for all.
	Resolvers []string `json:"resolvers"`
	// Owned are resolver addresses of a port of the network, which alone answers ARP and ND for them.
	Owned []string `json:"owned,omitempty"`
	// Left are resolver addresses of another machine, which puntdns does not punt and Resolvers lacks.
	Left []string `json:"left,omitempty"`
	// FunctionPorts are ports of network functions (ovn-nb(5)). What an ACL sends to them is not punted.
	FunctionPorts []FunctionPort `json:"function_ports,omitempty"`
	// Retained: the guest has no binding, and is served for the grace period.
	Retained bool `json:"kept"`
	// FlowCounters is left out if the switch has not reported it.
	FlowCounters *FlowCounters `json:"hits,omitempty"`
	// AttachedMAC is external_ids:attached-mac if the logical port lacks this address.
	AttachedMAC string `json:"attached_mac,omitempty"`
	LinkDown    bool   `json:"link_down,omitempty"`
	// PortConfig may have PortNoReceive and PortNoForward.
	PortConfig []string `json:"port_config,omitempty"`
	// DroppedARP counts ARP packets that port security has dropped since ovn-controller made its flows, until
	// a minute after the last.
	DroppedARP uint64 `json:"dropped_arp_packets,omitempty"`
	// Refused counts refusals by limits since the guest was last within them for a minute. Keys are the
	// metrics' label property: rate counts packets, tcp_connections connects, others queries.
	Refused map[string]uint64 `json:"refused,omitempty"`
	// Egress needs an egress policy or ACLs for one, and an answer of the switch.
	Egress *GuestEgress `json:"egress,omitempty"`
	// Problems are found without a query.
	Problems []Problem `json:"problems,omitempty"`
	DHCP     *DHCP     `json:"dhcp,omitempty"`
}

// GuestEgress says whether egress by name is enforced for a guest.
type GuestEgress struct {
	// Policy: the guest has a policy without observe on.
	Policy bool `json:"policy"`
	// Closed has "ip4" and "ip6" if ACLs drop packets to unopened destinations.
	Closed []string `json:"closed"`
	// Bit is the bit of pkt_mark that the ACLs match.
	Bit uint8 `json:"bit"`
}

// As in ovs-ofctl(8) mod-port.
const (
	PortNoReceive = "no-receive" // the switch drops packets from the port
	PortNoForward = "no-forward" // the switch drops packets to the port
)

// Stand-ins for a guest without a known address, such as "unknown".
const (
	StandIn4   = "192.0.2.1"
	StandIn6   = "fe80::1"
	StandInMAC = "02:00:00:00:00:01"
)

// FunctionPort is a port of a network function.
type FunctionPort struct {
	// Port is the name of the logical port, PortKey its tunnel key.
	Port    string `json:"port"`
	PortKey uint32 `json:"port_key"`
}

// FlowCounters are the flow counters of one guest.
type FlowCounters struct {
	Flows int `json:"flows"`
	// Queries includes packets refused by the rate. Neighbors are ARP and ND.
	Queries   uint64 `json:"query_packets"`
	Neighbors uint64 `json:"neighbor_packets"`
	// LastQuerySecondsAgo is in whole seconds, by OpenFlow 1.5 only.
	LastQuerySecondsAgo *float64 `json:"last_query_seconds_ago,omitempty"`
}

// DHCP is what OVN's DHCP for IPv4 announces to a guest.
type DHCP struct {
	// Row is the UUID of the DHCP_Options.
	Row        string `json:"row"`
	CIDR       string `json:"cidr"`
	Router     string `json:"router,omitempty"`
	Routes     string `json:"classless_static_route,omitempty"`
	DNSServer  string `json:"dns_server,omitempty"`
	DomainName string `json:"domain_name,omitempty"`
}

// Unserved is an interface or a guest that is not served.
type Unserved struct {
	Bridge    string `json:"bridge"`
	Interface string `json:"interface,omitempty"`
	Port      string `json:"port,omitempty"`
	InPort    uint32 `json:"in_port,omitempty"`
	Switch    string `json:"switch,omitempty"`
	Network   string `json:"network,omitempty"`
	Reason    string `json:"reason"`
	// Code is CodeNoAddress if only a resolver address is missing.
	Code string `json:"code,omitempty"`
	// Expected: not meant to be served, such as a localport.
	Expected bool `json:"expected"`
	// Remedy is empty if iface-id and the binding are to be checked.
	Remedy string `json:"remedy,omitempty"`
}
