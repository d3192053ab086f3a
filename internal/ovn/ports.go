// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// PortsData describes all ports of a logical switch, and its routers.
type PortsData struct {
	// Network and Switch are Network.ID and Network.Name of the switch.
	Network origin.Network
	Switch  string
	// Keys are the tunnel keys of the switch, in any order: one, except while northd replaces its
	// Datapath_Binding, and none without Southbound.
	Keys []uint32
	// Ports are in any order. The result of NewPorts shares what they point to, not the slice itself.
	Ports []PortData
	// Gateways are the addresses of the routers, in any order. Repetitions count once, and more
	// than maxGateways addresses count as none.
	Gateways []netip.Addr
	// Routers is Port.Routers of each port.
	Routers string
	// Machines is set to collect the addresses for Snapshot.HasMachine.
	Machines bool
}

// PortData describes a logical port, of a guest or not.
type PortData struct {
	// LogicalPort is shared with the Port. Its Key is 0 without Southbound.
	*LogicalPort
	// DatapathKey is PortContext.DatapathKey.
	DatapathKey uint32
	// ServiceTag is set for a localnet port whose tags are service tags (IEEE 802.1ad).
	ServiceTag bool
	// Local is set for a guest of the local chassis.
	Local bool
	// Disabled is set if Logical_Switch_Port.enabled is false. No packet reaches a disabled port,
	// so the port has no name.
	Disabled bool
	// Domain and DNSServers are PortContext.Domain and PortContext.DNSServers.
	Domain     string
	DNSServers []netip.Addr
	// ExternalIDs is for Port.ExternalID.
	ExternalIDs []ExternalID
}

// Ports is the ports of a logical switch, indexed. It is immutable. Versions of a Network with the same
// ports share one Ports.
type Ports struct {
	all    []*Port
	guests []*Port          // Local ones, and retained ones
	byKey  map[uint64]*Port // by PipelineKey, without external ports
	// external has the external ports that the local chassis serves.
	external  map[externalKey]externalPort
	datapaths []uint32 // PortsData.Keys, and those of retained guests; sorted
	// owners has the addresses of all ports and routers, and whether isMachine reports a port with
	// the address.
	owners map[netip.Addr]bool
	// machines are the addresses of ports that isMachine reports, nil without PortsData.Machines.
	machines  map[netip.Addr]struct{}
	gateways  []netip.Addr   // see Network.Gateways
	functions []FunctionPort // sorted by name
	metadata  bool           // a port serves the metadata addresses, see Network.Owns
	hosts     *names.Hostnames
}

// PipelineKey joins metadata and register 14.
func PipelineKey(datapath, port uint32) uint64 { return uint64(datapath)<<32 | uint64(port) }

// isMachine reports whether a port may belong to a machine, which answers DNS queries to its addresses. Only
// routers and localports may not.
func isMachine(kind string) bool {
	switch kind {
	case TypeRouter, TypePatch, TypeGateway, TypeLocalport:
		return false
	}
	return true
}

// IsGuestType reports whether a port has names and may ask. A VIF, a container, a virtual or an
// external port does; a router, localnet or localport does not.
func IsGuestType(kind string) bool { return kind == "" || kind == "virtual" || kind == TypeExternal }

// Types of ports by ovn-sb(5) and ovn-nb(5).
const (
	TypeRouter    = "router" // Northbound only
	TypeLocalnet  = "localnet"
	TypeLocalport = "localport"
	// TypePatch and TypeGateway are the ports of Southbound that join a switch and a
	// router.
	TypePatch    = "patch"
	TypeGateway  = "l3gateway"
	TypeExternal = "external"
	// TypeService is not a type of OVN. It marks a VIF that Neutron has plugged for one of its
	// services, such as its DHCP agent for bare metal.
	TypeService = "neutron-service"
	// TypeFunction is not a type of OVN. It marks a VIF through which packets of other guests go to
	// a network function.
	TypeFunction = "network-function"
)

const (
	// OwnerKey is where ML2/OVN writes the Neutron port's device_owner
	// (neutron's common/ovn/constants.py, OVN_DEVICE_OWNER_EXT_ID_KEY).
	OwnerKey = "neutron:device_owner"
	// FunctionKey marks the ports of network functions (ovn-nb(5), Logical_Switch_Port
	// options, from OVN 26.03 on). northd copies it to Port_Binding.
	FunctionKey = "is-nf"
	// OwnerNetwork begins the owners that serve a network: network:dhcp,
	// network:router_interface and the like (neutron-lib, constants.py).
	OwnerNetwork = "network:"
)

// portsBuilder collects the ports of a switch for NewPorts.
type portsBuilder struct {
	*PortsData
	out   *Ports
	hosts *names.HostnamesBuilder
	// localnets are the localnet ports, by the tunnel key of their datapath.
	localnets map[uint32][]localnetPort
	// contexts are the contexts of the ports so far.
	contexts map[contextKey]*PortContext
	problems []string
}

// contextKey identifies a PortContext among the ports of one switch.
type contextKey struct {
	datapath uint32
	domain   string
	servers  *netip.Addr // the first one: ports with the same DHCP options share the slice
}

// NewPorts returns the ports of a logical switch. problems says which external ports are not served,
// and why.
func NewPorts(data PortsData) (ports *Ports, problems []string) {
	n := len(data.Ports)
	b := portsBuilder{
		PortsData: &data, hosts: names.NewHostnamesBuilder(), localnets: make(map[uint32][]localnetPort), contexts: make(map[contextKey]*PortContext),
		out: &Ports{
			all: make([]*Port, 0, n), byKey: make(map[uint64]*Port, n), owners: make(map[netip.Addr]bool, n),
			datapaths: slices.Sorted(slices.Values(data.Keys)),
		},
	}
	b.hosts.Grow(n)
	if data.Machines {
		b.out.machines = make(map[netip.Addr]struct{}, n)
		b.hosts.SetMachines(b.out.machines)
	}
	for i := range data.Ports {
		b.add(&data.Ports[i])
	}
	b.addGateways()
	b.addExternal()
	slices.SortFunc(b.out.functions, func(a, b FunctionPort) int { return strings.Compare(a.Name, b.Name) })
	b.out.hosts = b.hosts.Done()
	return b.out, b.problems
}

func (b *portsBuilder) add(d *PortData) {
	kind := d.PortType()
	for _, a := range d.Addresses {
		b.out.owners[a] = b.out.owners[a] || isMachine(kind)
		if b.out.machines != nil && isMachine(kind) {
			b.out.machines[a] = struct{}{}
		}
	}
	switch kind {
	case TypeLocalport, TypeService:
		b.out.metadata = true
	case TypeFunction:
		b.out.functions = append(b.out.functions, FunctionPort{d.Name, d.Key})
	case TypeLocalnet:
		if d.Key != 0 {
			b.localnets[d.DatapathKey] = append(b.localnets[d.DatapathKey], localnetPort{Localnet{d.Name, d.Key, d.Tag}, d.ServiceTag})
		}
	}
	if IsGuestType(kind) {
		b.addGuest(d)
	}
}

func (b *portsBuilder) addGuest(d *PortData) {
	p := &Port{LogicalPort: d.LogicalPort, PortContext: b.contextOf(d), Local: d.Local}
	if len(d.ExternalIDs) > 0 {
		p.rare = &rarePort{ids: d.ExternalIDs}
	}
	b.out.all = append(b.out.all, p)
	if d.Local {
		b.out.guests = append(b.out.guests, p)
	}
	if d.Key != 0 && !p.IsExternal() {
		b.out.byKey[PipelineKey(d.DatapathKey, d.Key)] = p
	}
	if d.Disabled || d.Hostname == "" || len(d.Addresses) == 0 {
		return
	}
	b.hosts.Add(d.Hostname, d.Domain, d.Addresses)
}

// contextOf returns the context of a port. Ports with equal contexts share one.
func (b *portsBuilder) contextOf(d *PortData) *PortContext {
	key := contextKey{datapath: d.DatapathKey, domain: d.Domain}
	if len(d.DNSServers) > 0 {
		key.servers = &d.DNSServers[0]
	}
	c := b.contexts[key]
	if c == nil {
		c = &PortContext{
			Network: b.Network, SwitchName: b.Switch, DatapathKey: d.DatapathKey,
			Domain: d.Domain, DNSServers: d.DNSServers, routers: b.Routers,
		}
		b.contexts[key] = c
	}
	return c
}

func (b *portsBuilder) addGateways() {
	all := names.SortAddresses(slices.Clone(b.Gateways))
	if len(all) > MaxGateways {
		return
	}
	b.out.gateways = all
	for _, a := range all {
		if !b.out.owners[a] { // a workload may have it too
			b.out.owners[a] = false
		}
	}
}

// WithRetained returns the ports with retained guests in addition. A guest is left out if a port has its
// tunnel keys.
func (p *Ports) WithRetained(retained []*Port) *Ports {
	if len(retained) == 0 {
		return p
	}
	next := *p
	next.guests, next.datapaths = slices.Clone(p.guests), slices.Clone(p.datapaths)
	next.byKey, next.external = maps.Clone(p.byKey), maps.Clone(p.external)
	for _, guest := range retained {
		if !next.hasKeys(guest) {
			next.retain(guest)
		}
	}
	slices.Sort(next.datapaths)
	return &next
}

// onlyRetained returns the ports with retained guests in the place of all guests.
func (p *Ports) onlyRetained(retained []*Port) *Ports {
	next := *p
	next.guests, next.byKey, next.external = nil, nil, nil
	return next.WithRetained(retained)
}

// hasKeys reports whether a port has the tunnel keys of a guest.
func (p *Ports) hasKeys(guest *Port) bool {
	if guest.IsExternal() {
		return slices.ContainsFunc(p.guests, func(q *Port) bool { return q.DatapathKey == guest.DatapathKey && q.Key == guest.Key })
	}
	return p.byKey[PipelineKey(guest.DatapathKey, guest.Key)] != nil
}

// retain adds a retained guest, before p is shared.
func (p *Ports) retain(guest *Port) {
	p.guests = append(p.guests, guest)
	if !slices.Contains(p.datapaths, guest.DatapathKey) {
		p.datapaths = append(p.datapaths, guest.DatapathKey)
	}
	if guest.IsExternal() {
		p.addExternal(guest)
		return
	}
	if p.byKey == nil {
		p.byKey = make(map[uint64]*Port)
	}
	p.byKey[PipelineKey(guest.DatapathKey, guest.Key)] = guest
}

// MaxGateways bounds the routers of a switch, and their addresses. A switch with more joins the
// routers of many tenants, which are no gateways of its guests.
const MaxGateways = 32
