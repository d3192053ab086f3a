// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/policy"
)

type PortsData struct {
	Network origin.Network
	Switch  string
	// Keys has two keys while northd replaces the Datapath_Binding, none without Southbound.
	Keys []uint32
	// The result of NewPorts shares the pointers, not the slice.
	Ports []PortData
	// More than MaxGateways count as none.
	Gateways []netip.Addr
	Routers  string
	// Machines collects the addresses for Snapshot.HasMachine.
	Machines bool
}

type PortData struct {
	*LogicalPort
	DatapathKey uint32
	// ServiceTag is set for a localnet port with service tags (IEEE 802.1ad).
	ServiceTag bool
	// Local is set for a guest of the local chassis, and Arriving for one on its way there by live migration.
	Local, Arriving bool
	// Disabled is set if Logical_Switch_Port.enabled is false. No packet reaches a disabled port,
	// so the port has no name.
	Disabled bool
	// Domain and DNSServers are PortContext.Domain and PortContext.DNSServers.
	Domain     string
	DNSServers []netip.Addr
	// Groups is Port.Groups, Egress is Port.Egress. ExternalIDs is for Port.ExternalID.
	Groups      string
	Egress      []*policy.Policy
	ExternalIDs []ExternalID
}

// Ports is the immutable, indexed ports of a logical switch. Versions of a Network share it.
type Ports struct {
	all       []*Port
	guests    []*Port          // local and retained
	byKey     map[uint64]*Port // by PipelineKey, without external ports
	external  map[externalKey]externalPort
	datapaths []uint32 // sorted, with the keys of retained guests
	// owners has the addresses of all ports and routers, true for isMachine ports.
	owners map[netip.Addr]bool
	// machines are the addresses of isMachine ports, if collected.
	machines  map[netip.Addr]struct{}
	gateways  []netip.Addr
	functions []FunctionPort
	metadata  bool // a port serves the metadata addresses
	hosts     *names.Hostnames
}

// PipelineKey joins metadata and register 14.
func PipelineKey(datapath, port uint32) uint64 { return uint64(datapath)<<32 | uint64(port) }

// isMachine reports whether a port may belong to a machine, which answers DNS queries to its addresses.
func isMachine(kind string) bool {
	switch kind {
	case TypeRouter, TypePatch, TypeGateway, TypeLocalport:
		return false
	}
	return true
}

// IsGuestType reports whether a port has names and may ask.
func IsGuestType(kind string) bool { return kind == "" || kind == "virtual" || kind == TypeExternal }

// Types of ports by ovn-sb(5) and ovn-nb(5).
const (
	TypeRouter    = "router"
	TypeLocalnet  = "localnet"
	TypeLocalport = "localport"
	// TypePatch and TypeGateway join a switch and a router in Southbound.
	TypePatch    = "patch"
	TypeGateway  = "l3gateway"
	TypeExternal = "external"
	// TypeService is puntdns' own: a VIF of a Neutron service, such as its DHCP agent for bare metal.
	TypeService = "neutron-service"
	// TypeFunction is puntdns' own: a VIF to a network function.
	TypeFunction = "network-function"
)

const (
	// OwnerKey has the port's device_owner (neutron's common/ovn/constants.py, OVN_DEVICE_OWNER_EXT_ID_KEY).
	OwnerKey = "neutron:device_owner"
	// FunctionKey marks ports of network functions (ovn-nb(5), Logical_Switch_Port options, OVN 26.03).
	FunctionKey = "is-nf"
	// OwnerNetwork begins the owners that serve a network, such as network:dhcp (neutron-lib, constants.py).
	OwnerNetwork = "network:"
)

type portsBuilder struct {
	*PortsData
	out       *Ports
	hosts     *names.HostnamesBuilder
	localnets map[uint32][]localnetPort
	contexts  map[contextKey]*PortContext
	problems  []string
}

type contextKey struct {
	datapath uint32
	domain   string
	servers  *netip.Addr // the first: ports with the same DHCP options share the slice
}

// NewPorts returns the ports of a logical switch. problems lists the external ports that are not served.
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
	if len(d.ExternalIDs) > 0 || d.Groups != "" || len(d.Egress) > 0 || d.Arriving {
		p.rare = &rarePort{ids: d.ExternalIDs, groups: d.Groups, egress: d.Egress, arriving: d.Arriving}
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
		if !b.out.owners[a] {
			b.out.owners[a] = false
		}
	}
}

// WithRetained adds retained guests, except guests whose tunnel keys a port has.
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

func (p *Ports) onlyRetained(retained []*Port) *Ports {
	next := *p
	next.guests, next.byKey, next.external = nil, nil, nil
	return next.WithRetained(retained)
}

func (p *Ports) hasKeys(guest *Port) bool {
	if guest.IsExternal() {
		return slices.ContainsFunc(p.guests, func(q *Port) bool { return q.DatapathKey == guest.DatapathKey && q.Key == guest.Key })
	}
	return p.byKey[PipelineKey(guest.DatapathKey, guest.Key)] != nil
}

// retain must run before p is shared.
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

// MaxGateways bounds the routers of a switch. A switch with more joins many tenants' routers.
const MaxGateways = 32
