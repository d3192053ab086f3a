// SPDX-License-Identifier: Apache-2.0

// Package guests answers who has sent a packet, whether that guest is served, at which resolver addresses,
// with which limits, and why an interface is not served. No other package does. The punt asks for each packet,
// the flows of a switch are made from a List, and puntctl shows the guests of a Book.
//
//	[Config]   the part of the Corefile about the guests of a bridge
//	[Rules]    a Config with an index of its limits
//	[Book]     the guests of a bridge, by Rules, a snapshot of the OVN databases and a view of the switch
//	[Guest]    a guest, found by a packet (Book.Sender) or a key (Book.ByKey), or one of Book.All
//
// A Book is three pointers, so a caller makes one whenever it needs one. The functions of the package are pure.
package guests

import (
	"net/netip"
	"slices"

	"github.com/puntdns/puntdns/internal/label"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// Config is what a Corefile says of the guests of a bridge.
type Config struct {
	Placement placement.Kind
	// Resolvers are the resolver addresses of all guests. DHCP is set if the DNS servers that OVN's DHCP
	// announces to a guest are resolver addresses of this guest too, Gateways if the addresses of the
	// routers on its network are. Without any of the three every address is one.
	Resolvers      []netip.AddrPort
	DHCP, Gateways bool
	// ResolversGiven is set if the Corefile names the Resolvers. Else they are the default, and are not
	// served on networks where a workload has the address.
	ResolversGiven bool
	// Rate is what the switch takes of one guest, valid if RateGiven is set.
	Rate      Rate
	RateGiven bool
	// FailClosed is set if guests get no DNS without puntdns, unless a limit says otherwise.
	FailClosed bool
	// Limits are the limits of guests with a label, in the order of the Corefile: the first one counts. They
	// replace the limits of all guests.
	Limits []Limit
}

// Hijack reports whether queries to every destination are punted.
func (c *Config) Hijack() bool { return len(c.Resolvers) == 0 && !c.PerGuest() }

// PerGuest reports whether guests have resolver addresses of their own.
func (c *Config) PerGuest() bool { return c.DHCP || c.Gateways }

// Rules are a Config whose limits are found by label. They are immutable.
type Rules struct {
	Config
	limits label.Index
}

// NewRules returns the rules of a Config. The values of its limits are in the form of label.Canonical.
func NewRules(c Config) *Rules {
	r := &Rules{Config: c}
	for i := range c.Limits {
		if of, ok := label.Named(c.Limits[i].Label); ok {
			_ = r.limits.Add(of, c.Limits[i].Value, i) // the value is canonical
		}
	}
	return r
}

// Owner returns the interface that has an OpenFlow port, nil if that is not known. With OVN the registers of
// a packet identify its sender as well. Without OVN only the port does, so the owner is unknown while packets
// of an earlier owner may be in flight.
func (r *Rules) Owner(p *ports.Owners, inPort uint32) *vswitch.Interface {
	if r.Placement == placement.OVN {
		return p.Owner(inPort)
	}
	return p.DrainedOwner(inPort)
}

// Book has the guests of a bridge at one time.
type Book struct {
	rules    *Rules
	snapshot *ovn.Snapshot
	view     *ports.View
}

// At returns the guests by a snapshot, nil without databases, and by a view, nil before the first one.
func At(r *Rules, s *ovn.Snapshot, v *ports.View) Book { return Book{r, s, v} }

// Guest is one guest. It is comparable, and valid as long as its Book.
type Guest struct {
	// Key identifies the guest in the switch.
	Key placement.Key
	// Port is the logical port, nil without databases.
	Port *ovn.Port
	// Localnet is where the packets of an external port enter, nil for other ports.
	Localnet *ovn.Localnet
	// Interface is where the packets enter. It is nil if that is not known, and Sender never returns nil.
	Interface *vswitch.Interface

	book Book
	// services are the networks with a service of Neutron's, nil if they are not known yet.
	services *services
}

// Sender returns the guest that has sent a packet. owner has the OpenFlow port of the packet (Rules.Owner).
// It reports whether the sender is known.
func (b Book) Sender(in *openflow.PacketIn, owner *vswitch.Interface) (Guest, bool) {
	switch {
	case owner == nil:
		return Guest{}, false
	case b.rules.Placement == placement.OVN:
		return b.ovnSender(in, owner)
	}
	return b.local(owner)
}

// ByKey returns the guest with a key, and reports whether there is one.
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

// All calls yield with each guest, those without a resolver address included. An external port is a guest
// for each of its MAC addresses and localnet ports.
func (b Book) All(yield func(Guest) bool) {
	if b.rules.Placement == placement.OVN {
		b.allOVN(yield)
	} else {
		b.allLocal(yield)
	}
}

// Version is equal for two Books that have the same guests with the same limits.
type Version struct {
	rules *Rules
	// view is nil with OVN, where the guests depend on the databases alone, unless a limit is by the OpenFlow
	// port.
	view  *ports.View
	ports uint64 // ovn.Snapshot.PortsVersion
	// externalIDs is the version of the local external_ids, 0 where no limit is by a key of theirs.
	externalIDs uint64
}

// Version returns the version of the Book, and a channel that is closed when external_ids change it; nil if
// none do.
func (b Book) Version() (v Version, changed <-chan struct{}) {
	v.rules = b.rules
	if b.snapshot != nil {
		v.ports = b.snapshot.PortsVersion
	}
	if b.rules.Placement != placement.OVN || b.rules.limits.Has(label.InPort) {
		v.view = b.view
	}
	if b.snapshot == nil && b.view != nil && b.rules.limits.HasKey() {
		v.externalIDs, changed = b.view.ExternalIDsVersion()
	}
	return v, changed
}

// Origin returns what the switch and the databases say of the guest. inPort is the OpenFlow port of a packet
// of the guest.
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

// VLAN returns the VLAN id that the switch takes off frames from the guest and puts on frames to it; 0 for
// none.
func (g *Guest) VLAN() uint16 {
	switch {
	case g.Localnet != nil:
		return g.Localnet.Tag
	case g.book.rules.Placement == placement.OVN && g.Port.IsContainer():
		return g.Port.Tag
	}
	return 0
}

// MaySendTagged reports whether a frame with a VLAN tag is the guest's own. Without OVN a container in the VM,
// perhaps of another tenant, may have sent the frame: its tag would show that, but the switch has not checked it.
func (g *Guest) MaySendTagged() bool { return g.Port == nil || g.book.rules.Placement == placement.OVN }

// Network returns the network of the guest, nil if that is not known.
func (g *Guest) Network() *ovn.Network {
	if g.Port == nil {
		return nil
	}
	return g.book.snapshot.Network(g.Port.Network)
}

// Answers reports whether an address is a resolver address of the guest.
func (g *Guest) Answers(a netip.AddrPort) bool {
	r := g.book.rules
	return r.Hijack() || slices.Contains(r.Resolvers, a) && !g.isLeft(a.Addr()) || g.hasOwn(a)
}

// HasResolver reports whether an address, whatever its port, is a resolver address of the guest.
func (g *Guest) HasResolver(a netip.Addr) bool {
	return slices.ContainsFunc(g.book.rules.Resolvers, func(r netip.AddrPort) bool { return r.Addr() == a }) && !g.isLeft(a) ||
		g.hasOwn(netip.AddrPortFrom(a, placement.DNSPort))
}

// IsOwned reports whether a port of the guest's network has an address, so that ARP requests and neighbour
// solicitations for it are not answered here.
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

// isLeft reports whether an address of Rules.Resolvers is left to a workload of the guest's network.
func (g *Guest) isLeft(a netip.Addr) bool {
	if g.book.rules.ResolversGiven {
		return false
	}
	n := g.Network()
	return n != nil && n.HasWorkload(a)
}

// hasOwn reports whether an address is a resolver address that the databases give the guest: one of a router
// on its network, or a DNS server that DHCP announces, unless a machine of the tenant has the address.
func (g *Guest) hasOwn(a netip.AddrPort) bool {
	r := g.book.rules
	if !r.PerGuest() || g.Port == nil || a.Port() != placement.DNSPort {
		return false
	}
	n := g.Network()
	return n != nil && (r.Gateways && slices.Contains(n.Gateways(), a.Addr()) ||
		r.DHCP && slices.Contains(g.Port.DNSServers, a.Addr()) && !g.book.snapshot.HasMachine(n, a.Addr()))
}

// AddressOf returns an address of a port, nil for none, that is among others. It reports whether there is one.
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
