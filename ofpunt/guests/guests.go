// SPDX-License-Identifier: Apache-2.0

// Package guests identifies the guest that sent a packet, its resolver addresses and limits, and why an interface is not
// served.
//
//	[Config]   the Corefile's part about a bridge's guests
//	[Rules]    a Config with an index of its limits
//	[Book]     guests by Rules, a snapshot of the OVN databases and a view of the switch
//	[Guest]    a guest of a Book (ovn.go with OVN's flows, else local.go)
//	[Limit]    the limit of a guest (limits.go)
//	[Reason]   why an interface is no guest (whynot.go)
//	[List]     the served guests, for package placement (list.go)
//
// A Book is three pointers: make one whenever needed. All functions are pure.
package guests

import (
	"net/netip"
	"slices"

	"github.com/puntdns/puntdns/internal/label"
	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// Config is the Corefile's part about guests.
type Config struct {
	Placement placement.Kind
	// Resolvers are all guests' resolver addresses. DHCP adds the DNS servers of OVN's DHCP, Gateways the routers'
	// addresses. Without all three every address is a resolver address.
	Resolvers      []netip.AddrPort
	DHCP, Gateways bool
	// Unless ResolversGiven, Resolvers are the default, and a workload with such an address keeps it.
	ResolversGiven bool
	// Rate is of one guest's punts, valid if RateGiven.
	Rate       Rate
	RateGiven  bool
	FailClosed bool
	// A guest has the first of Limits that matches.
	Limits []Limit
}

// Hijack reports whether queries to every destination are punted.
func (c *Config) Hijack() bool { return len(c.Resolvers) == 0 && !c.PerGuest() }

// PerGuest reports whether guests have their own resolver addresses.
func (c *Config) PerGuest() bool { return c.DHCP || c.Gateways }

// Rules are immutable.
type Rules struct {
	Config
	limits label.Index
	// Egress is nil without policies, and set before use.
	Egress EgressPolicies
}

// EgressPolicies are safe for concurrent use.
type EgressPolicies interface {
	// Of returns nil without a policy.
	Of(o *origin.Origin) opening.Policy
	// HasLabel reports whether a policy is by a label.
	HasLabel(name string) bool
}

// NewRules takes values as of label.Canonical.
func NewRules(c Config) *Rules {
	r := &Rules{Config: c}
	for i := range c.Limits {
		if of, ok := label.Named(c.Limits[i].Label); ok {
			_ = r.limits.Add(of, c.Limits[i].Value, i) // the value is canonical
		}
	}
	return r
}

// Owner returns an OpenFlow port's interface, nil if unknown: without OVN's registers, while packets of an earlier
// owner may be in flight.
func (r *Rules) Owner(p *ports.Owners, inPort uint32) *vswitch.Interface {
	if r.Placement == placement.OVN {
		return p.Owner(inPort)
	}
	return p.DrainedOwner(inPort)
}

// Book has a bridge's guests at one time.
type Book struct {
	rules    *Rules
	snapshot *ovn.Snapshot
	view     *ports.View
}

// At returns a Book. s is nil without databases, v before the first view.
func At(r *Rules, s *ovn.Snapshot, v *ports.View) Book { return Book{r, s, v} }

// Guest is comparable, and valid as long as its Book.
type Guest struct {
	Key placement.Key
	// Port is nil without databases.
	Port *ovn.Port
	// Localnet is where an external port's packets enter.
	Localnet *ovn.Localnet
	// Interface is nil if unknown. Sender always sets it.
	Interface *vswitch.Interface

	book Book
	// nil until computed
	services *services
}

// Sender returns the guest that sent a packet, if known. owner is Rules.Owner of its port.
func (b Book) Sender(in *openflow.PacketIn, owner *vswitch.Interface) (Guest, bool) {
	switch {
	case owner == nil:
		return Guest{}, false
	case b.rules.Placement == placement.OVN:
		return b.ovnSender(in, owner)
	}
	return b.local(owner)
}

// ByKey returns the guest with a key, if any.
func (b Book) ByKey(k placement.Key) (Guest, bool) {
	if b.rules.Placement == placement.OVN {
		return b.ovnByKey(k)
	}
	if b.view == nil {
		return Guest{}, false
	}
	owner := b.view.Interface(k.Port)
	if owner == nil {
		return Guest{}, false
	}
	return b.local(owner)
}

// All includes guests without a resolver address. An external port is a guest per MAC address and localnet port.
func (b Book) All(yield func(Guest) bool) {
	if b.rules.Placement == placement.OVN {
		b.allOVN(yield)
	} else {
		b.allLocal(yield)
	}
}

// Version is equal for Books with the same guests, limits and egress policies.
type Version struct {
	rules *Rules
	// nil with OVN, unless a limit or egress policy is by OpenFlow port
	view  *ports.View
	ports uint64 // ovn.Snapshot.PortsVersion
	// 0 unless a limit is by local external_ids
	externalIDs uint64
}

// Version also returns a channel that closes when external_ids change the version, nil if they can't.
func (b Book) Version() (v Version, changed <-chan struct{}) {
	v.rules = b.rules
	if b.snapshot != nil {
		v.ports = b.snapshot.PortsVersion
	}
	if b.rules.Placement != placement.OVN || b.rules.reads(label.InPort) {
		v.view = b.view
	}
	if b.snapshot == nil && b.view != nil && b.rules.limits.HasKey() {
		v.externalIDs, changed = b.view.ExternalIDsVersion()
	}
	return v, changed
}

func (r *Rules) reads(name string) bool {
	return r.limits.Has(name) || r.Egress != nil && r.Egress.HasLabel(name)
}

// Origin's inPort is the packet's OpenFlow port.
func (g *Guest) Origin(inPort uint32) (o origin.Origin) {
	o.InPort, o.VLAN = inPort, g.VLAN()
	switch {
	case g.Port != nil:
		o.Network, o.Switch, o.Port, o.Attributes = g.Port.Network, g.Port.SwitchName, g.Port.Name, g.Port
	case g.Interface != nil:
		o.Switch, o.Port, o.Attributes = g.Interface.NetworkID, g.Interface.IfaceID, g.Interface
	}
	return o
}

// OriginHere is Origin with the OpenFlow port of the guest's interface.
func (g *Guest) OriginHere() origin.Origin {
	if g.Interface == nil {
		return g.Origin(0)
	}
	return g.Origin(g.Interface.OFPort)
}

// VLAN returns the VLAN id that the switch adds and strips, 0 for none.
func (g *Guest) VLAN() uint16 {
	switch {
	case g.Localnet != nil:
		return g.Localnet.Tag
	case g.book.rules.Placement == placement.OVN && g.Port.IsContainer():
		return g.Port.Tag
	}
	return 0
}

// MaySendTagged reports whether a tagged frame counts as the guest's. With databases but without OVN's flows the tag
// is unchecked: a container in the VM, maybe another tenant's, may have sent the frame.
func (g *Guest) MaySendTagged() bool { return g.Port == nil || g.book.rules.Placement == placement.OVN }

// Network is nil if unknown.
func (g *Guest) Network() *ovn.Network {
	if g.Port == nil {
		return nil
	}
	return g.book.snapshot.Network(g.Port.Network)
}

// Answers reports whether a is a resolver address of the guest.
func (g *Guest) Answers(a netip.AddrPort) bool {
	r := g.book.rules
	return r.Hijack() || slices.Contains(r.Resolvers, a) && !g.isLeft(a.Addr()) || g.hasOwn(a)
}

// HasResolver reports whether a, with any port, is a resolver address; false in hijack mode.
func (g *Guest) HasResolver(a netip.Addr) bool {
	return slices.ContainsFunc(g.book.rules.Resolvers, func(r netip.AddrPort) bool { return r.Addr() == a }) && !g.isLeft(a) ||
		g.hasOwn(netip.AddrPortFrom(a, placement.DNSPort))
}

// IsOwned reports whether a port of the network has a: puntdns then answers no ARP or neighbour solicitation for a.
func (g *Guest) IsOwned(a netip.Addr) bool {
	if n := g.Network(); n != nil && n.Owns(a) {
		return true
	}
	if g.book.rules.Placement == placement.OVN || !ovn.IsMetadata(a) {
		return false
	}
	s := g.services
	if s == nil {
		found := servicesOf(g.book.view)
		s = &found
	}
	return s.has(g.Interface)
}

// isLeft reports whether a workload has the default resolver address a.
func (g *Guest) isLeft(a netip.Addr) bool {
	if g.book.rules.ResolversGiven {
		return false
	}
	n := g.Network()
	return n != nil && n.HasWorkload(a)
}

// hasOwn reports whether a is a router's address, or a DNS server of DHCP that is no tenant's machine.
func (g *Guest) hasOwn(a netip.AddrPort) bool {
	r := g.book.rules
	if !r.PerGuest() || g.Port == nil || a.Port() != placement.DNSPort {
		return false
	}
	n := g.Network()
	return n != nil && (r.Gateways && slices.Contains(n.Gateways(), a.Addr()) ||
		r.DHCP && slices.Contains(g.Port.DNSServers, a.Addr()) && !g.book.snapshot.HasMachine(n, a.Addr()))
}

// AddressOf returns p's first address in among. p may be nil.
func AddressOf(p *ovn.Port, among []netip.Addr) (netip.Addr, bool) {
	if p != nil {
		for _, a := range p.Addresses {
			if slices.Contains(among, a) {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}
