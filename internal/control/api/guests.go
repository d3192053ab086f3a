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

// Find returns the guests that a word means, each port of a bridge once: the logical port of that name, else the
// interface of that name, else the guests with that address, else with that MAC address. Tenants may have the
// same addresses, so these may mean several guests.
func (all *Guests) Find(word string) (found []*Guest) {
	for _, means := range []func(*Guest) bool{
		func(g *Guest) bool { return g.Port == word },
		func(g *Guest) bool { return g.Interface == word && g.VLAN == 0 },
		func(g *Guest) bool { return hasAddress(g.Addresses, word) },
		func(g *Guest) bool { return hasMAC(g.MACs, word) },
	} {
		for i := range all.Guests {
			// An external port is there once for each address and way in.
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

func (g *Guest) isSamePort(o *Guest) bool { return g.Port == o.Port && g.Bridge == o.Bridge }

func hasAddress(all []string, word string) bool {
	a, err := netip.ParseAddr(word)
	return err == nil && slices.Contains(all, a.String())
}

func hasMAC(all []string, word string) bool {
	mac, err := net.ParseMAC(word)
	return err == nil && slices.Contains(all, mac.String())
}

// Guest is one that is served.
type Guest struct {
	Bridge string `json:"bridge"`
	// Port is the name of the logical port, and Switch the name of its network.
	Port   string `json:"port"`
	Switch string `json:"switch,omitempty"`
	// Network is the UUID of the switch.
	Network string `json:"network,omitempty"`
	// InPort is the OpenFlow port, VLAN the tag of a container or of an external port.
	InPort uint32 `json:"in_port,omitempty"`
	VLAN   uint16 `json:"vlan,omitempty"`
	// Interface is the name of the local interface.
	Interface string   `json:"interface,omitempty"`
	MACs      []string `json:"macs"`
	Addresses []string `json:"addresses"`
	// DatapathKey and PortKey are the tunnel keys of switch and port in OVN.
	DatapathKey uint32 `json:"datapath_key,omitempty"`
	PortKey     uint32 `json:"port_key,omitempty"`
	// Resolvers are the addresses, with ports, where this guest is answered; "any" for all.
	Resolvers []string `json:"resolvers"`
	// Owned are the resolver addresses that a port of the network has. Only that port answers ARP requests
	// and neighbour solicitations for them.
	Owned []string `json:"owned,omitempty"`
	// Left are the resolver addresses that another machine of the network has. puntdns leaves queries for them to
	// that machine, so Resolvers lacks them.
	Left []string `json:"left,omitempty"`
	// FunctionPorts are the ports of network functions (ovn-nb(5)) on the switch: what an ACL sends to
	// one of them is not punted.
	FunctionPorts []FunctionPort `json:"function_ports,omitempty"`
	// Kept is set while the guest has no binding and is served for the grace.
	Kept bool `json:"kept"`
	// Hits are the counters of the switch; left out if it has not reported them.
	Hits *Hits `json:"hits,omitempty"`
	// AttachedMAC is external_ids:attached-mac of the interface if no MAC address of the logical port is the same.
	AttachedMAC string `json:"attached_mac,omitempty"`
	// LinkDown is set while the link of the interface is down.
	LinkDown bool `json:"link_down,omitempty"`
	// PortConfig has PortNoReceive and PortNoForward if the OpenFlow port has such a config.
	PortConfig []string `json:"port_config,omitempty"`
	// DroppedARP is how many ARP packets of the guest OVN's port security has dropped since ovn-controller made its flows.
	// It is left out if the last one is more than a minute ago.
	DroppedARP uint64 `json:"dropped_arp_packets,omitempty"`
	// Refused is what limits have refused the guest since it was last a minute within them, by the value of
	// the metrics' label property: rate counts packets, tcp_connections attempts to connect, others queries.
	Refused map[string]uint64 `json:"refused,omitempty"`
	// Problems are why the guest does not get its answers, as far as it can be seen without a query.
	Problems []Problem `json:"problems,omitempty"`
	// DHCP is what the DHCP options of OVN announce to the guest; left out if they are not known.
	DHCP *DHCP `json:"dhcp,omitempty"`
}

// Words for the config of an OpenFlow port, as in the command mod-port of ovs-ofctl(8).
const (
	PortNoReceive = "no-receive" // the switch drops what comes from the port
	PortNoForward = "no-forward" // the switch drops what goes to the port
)

// The addresses that stand in for a guest of which the databases know none, such as a port with the addresses
// "unknown", where a query of the guest is made up.
const (
	StandIn4   = "192.0.2.1"
	StandIn6   = "fe80::1"
	StandInMAC = "02:00:00:00:00:01"
)

// FunctionPort is a port of a network function.
type FunctionPort struct {
	// Port is the name of the logical port, and PortKey its tunnel key.
	Port    string `json:"port"`
	PortKey uint32 `json:"port_key"`
}

// Hits are the counters of the flows of one guest.
type Hits struct {
	// Flows are in place.
	Flows int `json:"flows"`
	// Queries are the packets to a resolver address, over UDP and TCP, with those that the rate has
	// refused; Neighbors the ARP
	// requests and neighbour solicitations for one.
	Queries   uint64 `json:"query_packets"`
	Neighbors uint64 `json:"neighbor_packets"`
	// LastQuerySecondsAgo is the age of the last such packet in whole seconds, which the switch reports by
	// OpenFlow 1.5 only. It is left out without a query.
	LastQuerySecondsAgo *float64 `json:"last_query_seconds_ago,omitempty"`
}

// DHCP is what OVN's DHCP for IPv4 announces to a guest.
type DHCP struct {
	// Row is the UUID of the DHCP_Options.
	Row string `json:"row"`
	// CIDR is the subnet that it is for.
	CIDR       string `json:"cidr"`
	Router     string `json:"router,omitempty"`
	Routes     string `json:"classless_static_route,omitempty"`
	DNSServer  string `json:"dns_server,omitempty"`
	DomainName string `json:"domain_name,omitempty"`
}

// Unserved is an interface, or a guest, that is not served.
type Unserved struct {
	Bridge    string `json:"bridge"`
	Interface string `json:"interface,omitempty"`
	Port      string `json:"port,omitempty"`
	InPort    uint32 `json:"in_port,omitempty"`
	// Switch and Network are as in [Guest]. They are left out if puntdns does not read the port.
	Switch  string `json:"switch,omitempty"`
	Network string `json:"network,omitempty"`
	// Reason says why.
	Reason string `json:"reason"`
	// Code is CodeNoAddress where it lacks nothing but a resolver address, else empty.
	Code string `json:"code,omitempty"`
	// Expected is set where it is not meant to be served, such as a localport.
	Expected bool `json:"expected"`
	// Remedy says what to do about it. It is empty if iface-id and the binding of the port are the things to
	// check.
	Remedy string `json:"remedy,omitempty"`
}
