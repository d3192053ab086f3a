// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// ports has the ports of a network, indexed. Networks of successive snapshots share it
// where only their DNS rows differ. It is immutable.
type ports struct {
	all    []*Port
	guests []*Port          // those bound to the local chassis, and those that are kept
	byKey  map[uint64]*Port // by pipelineKey; without external ones
	// external has the external ports that the local chassis serves.
	external map[externalKey]externalPort
	// datapaths are the tunnel keys of the switch: one, except while northd
	// replaces its Datapath_Binding.
	datapaths []uint32
	// owners has the addresses of all ports, guests or not, and whether a workload has one:
	// a port that isMachine reports.
	owners map[netip.Addr]bool
	// machines are the addresses of ports that are neither a router's nor a localport; nil
	// unless Port.DNSServers is asked for.
	machines map[netip.Addr]struct{}
	gateways []netip.Addr // see Network.Gateways
	// functions are sorted by name.
	functions []FunctionPort
	metadata  bool // a port serves the metadata addresses, see Network.Owns
	hosts     *names.Hostnames
}

// pipelineKey joins metadata and register 14.
func pipelineKey(datapath, port uint32) uint64 { return uint64(datapath)<<32 | uint64(port) }

// logicalPort is a port as one database or both have it.
type logicalPort struct {
	name, kind       string // kind is that of effectiveKind
	datapath, key    uint32 // tunnel keys, 0 without Southbound
	parent           string // port of a container's VM
	tag              uint16 // VLAN of a container, or of a localnet port
	service          bool   // the tag of a localnet port is a service tag
	hostname, domain string // canonical, "" for none
	addresses        []netip.Addr
	macs             []origin.MAC // of addresses
	local            bool         // it is a guest of the local chassis
	disabled         bool         // Logical_Switch_Port.enabled is false
	dhcp             dhcpRows
	ids              []rows.Pair // external_ids, of the keys that labels are asked for
}

// isMachine reports whether a port may be that of a machine, which answers DNS queries that
// are sent to its addresses: all but those of routers and localports may.
func isMachine(kind string) bool {
	switch kind {
	case kindRouter, kindPatch, kindGateway, kindLocalport:
		return false
	}
	return true
}

// isGuest reports whether a port has names and may ask: a VIF, a container, a virtual or
// an external port does, a router, localnet or localport does not.
func isGuest(kind string) bool { return kind == "" || kind == "virtual" || kind == kindExternal }

// Types of ports, of ovn-sb(5) and ovn-nb(5).
const (
	kindRouter    = "router" // Northbound only
	kindLocalnet  = "localnet"
	kindLocalport = "localport"
	// kindPatch and kindGateway are the ports of Southbound that join a switch and a
	// router.
	kindPatch    = "patch"
	kindGateway  = "l3gateway"
	kindExternal = "external"
	// kindService is no type of OVN's: it is that of a VIF which Neutron has plugged
	// for a service of its own, the DHCP agent's for bare metal among them.
	kindService = "neutron-service"
	// kindFunction is no type of OVN's either: it is that of a VIF by which packets of
	// others go through a network function.
	kindFunction = "network-function"
)

const (
	// ownerKey is where ML2/OVN writes the Neutron port's device_owner
	// (neutron's common/ovn/constants.py, OVN_DEVICE_OWNER_EXT_ID_KEY).
	ownerKey = "neutron:device_owner"
	// functionKey marks the ports of network functions (ovn-nb(5), Logical_Switch_Port
	// options, from OVN 26.03 on). northd copies it to Port_Binding.
	functionKey = "is-nf"
	// ownerNetwork begins the owners that serve a network: network:dhcp,
	// network:router_interface and the like (neutron-lib, constants.py).
	ownerNetwork = "network:"
)

// effectiveKind is the kind of a port of that type, owner and options:is-nf.
func effectiveKind(kind, owner, function string) string {
	switch {
	case !isGuest(kind):
	case strings.HasPrefix(owner, ownerNetwork):
		return kindService
	case strings.EqualFold(function, "true"): // as smap_get_bool of Open vSwitch takes it
		return kindFunction
	}
	return kind
}

// portsBuilder collects the ports of one network.
type portsBuilder struct {
	network *Network
	out     *ports
	hosts   *names.HostnamesBuilder
	routers string // names of those that the network is attached to, for labels
	// dhcp has the ports by their DHCP options.
	dhcp map[dhcpRows][]*Port
	// localnets are the localnet ports, by the tunnel key of their datapath.
	localnets map[uint32][]localnetPort
	// bad reports what can't be served.
	bad func(text string)
}

func newPortsBuilder(n *Network, bad func(text string)) *portsBuilder {
	return &portsBuilder{
		network: n, hosts: names.NewHostnamesBuilder(), localnets: make(map[uint32][]localnetPort), bad: bad,
		out: &ports{byKey: make(map[uint64]*Port), owners: make(map[netip.Addr]bool)},
	}
}

// withDNSServers has the addresses of machines collected, and ports by their DHCP options.
func (b *portsBuilder) withDNSServers() {
	b.out.machines, b.dhcp = make(map[netip.Addr]struct{}), make(map[dhcpRows][]*Port)
	b.hosts.SetMachines(b.out.machines)
}

func (b *portsBuilder) add(l logicalPort) {
	for _, a := range l.addresses {
		b.out.owners[a] = b.out.owners[a] || isMachine(l.kind)
		if b.out.machines != nil && isMachine(l.kind) {
			b.out.machines[a] = struct{}{}
		}
	}
	if l.kind == kindLocalport || l.kind == kindService {
		b.out.metadata = true
	}
	if l.kind == kindFunction {
		b.out.functions = append(b.out.functions, FunctionPort{l.name, l.key})
	}
	if l.kind == kindLocalnet && l.key != 0 {
		b.localnets[l.datapath] = append(b.localnets[l.datapath], localnetPort{Localnet{l.name, l.key, l.tag}, l.service})
	}
	if !isGuest(l.kind) {
		return
	}
	p := &Port{
		Name: l.name, Type: l.kind,
		Network: b.network.ID, SwitchName: b.network.Name,
		DatapathKey: l.datapath, Key: l.key,
		Parent: l.parent, Tag: l.tag,
		Hostname: l.hostname, Domain: l.domain, Local: l.local,
		Addresses: l.addresses, MACs: l.macs,
	}
	if b.routers != "" || len(l.ids) > 0 {
		p.labels = &portLabels{b.routers, l.ids}
	}
	b.out.all = append(b.out.all, p)
	if b.dhcp != nil && l.dhcp != (dhcpRows{}) {
		b.dhcp[l.dhcp] = append(b.dhcp[l.dhcp], p)
	}
	if l.local {
		b.out.guests = append(b.out.guests, p)
	}
	if l.key != 0 && !p.IsExternal() {
		b.out.byKey[pipelineKey(l.datapath, l.key)] = p
	}
	// A disabled port has no name: no packet gets to it.
	if l.disabled || l.hostname == "" || len(l.addresses) == 0 {
		return
	}
	b.hosts.Add(l.hostname, l.domain, l.addresses)
}

// addGateways adds the addresses of routers on the network, in any order.
func (b *portsBuilder) addGateways(all []netip.Addr) {
	all = names.SortAddresses(all)
	if len(all) > maxGateways {
		return
	}
	b.out.gateways = all
	for _, a := range all {
		if !b.out.owners[a] { // a workload may have it too
			b.out.owners[a] = false
		}
	}
}

func (b *portsBuilder) done() *ports {
	b.addExternal()
	slices.SortFunc(b.out.functions, func(a, b FunctionPort) int { return strings.Compare(a.Name, b.Name) })
	b.out.hosts = b.hosts.Done()
	return b.out
}
