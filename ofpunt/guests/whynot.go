// SPDX-License-Identifier: Apache-2.0

package guests

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// Known is WhyNot's input beside the Book.
type Known struct {
	Bridge string
	// NotHere has, by iface-id, why a port is no guest here, empty for types that are never guests. Ports not looked
	// up have no entry.
	NotHere map[string]string
	// Served has names of guests' interfaces, by iface-id.
	Served map[string][]string
	// Unconfirmed is set while ovn-controller's flows do not confirm the saved snapshot.
	Unconfirmed bool
}

// tunnelTypes join bridges and nodes (ovs-vswitchd.conf.db(5)).
var tunnelTypes = []string{"patch", "geneve", "vxlan", "gre", "ip6gre", "erspan", "ip6erspan", "stt", "lisp", "gtpu", "bareudp", "srv6"}

// WhyNot returns why an interface in no List is not served.
func (b Book) WhyNot(i *vswitch.Interface, k *Known) Reason {
	switch {
	case slices.Contains(tunnelTypes, i.Type) || i.Name == k.Bridge || i.Localnet != "":
		return Reason{Code: NoGuest}
	case i.IfaceID == "":
		return Reason{Code: NoIfaceID}
	case i.OFPort == 0:
		return Reason{NoOFPort, i.Name}
	case len(k.Served[i.IfaceID]) > 0:
		return Reason{IfaceIDTwice, k.Served[i.IfaceID][0]}
	}
	if b.rules.Placement != placement.OVN {
		if r := b.whyNotLocal(i); r.Code != "" {
			return r
		}
	}
	if text, ok := k.NotHere[i.IfaceID]; ok {
		if text == "" {
			return Reason{Code: OtherType}
		}
		return Reason{NotHere, text}
	}
	if b.snapshot == nil {
		return Reason{Code: PluggedNow}
	}
	switch p := b.PortOf(i); {
	case b.rules.Serves(p):
		if b.withoutResolver(p) {
			return Reason{NoResolver, b.rules.perGuestWords()}
		}
		return Reason{Code: PluggedNow}
	case k.Unconfirmed:
		return Reason{Code: Unconfirmed}
	}
	return Reason{Code: NotRead}
}

// PortOf is nil if the port is not read.
func (b Book) PortOf(i *vswitch.Interface) *ovn.Port {
	if b.snapshot == nil {
		return nil
	}
	return b.snapshot.PortByName(i.IfaceID)
}

func (b Book) whyNotLocal(i *vswitch.Interface) Reason {
	switch {
	case isService(i):
		return Reason{Code: OfNeutron}
	case i.Tag == deadVLAN:
		return Reason{Code: DeadVLAN}
	case b.rules.Placement != placement.Neutron:
		return Reason{}
	case i.Tag == 0:
		return Reason{Code: NoTag}
	}
	if _, ok := AttachedMAC(i); !ok {
		return Reason{Code: NoAttachedMAC}
	}
	return Reason{}
}

func (b Book) withoutResolver(p *ovn.Port) bool {
	r := b.rules
	if !r.PerGuest() || len(r.Resolvers) > 0 {
		return false
	}
	g := Guest{Port: p, book: b}
	isOwn := func(a netip.Addr) bool { return g.hasOwn(netip.AddrPortFrom(a, placement.DNSPort)) }
	n := g.Network()
	return !slices.ContainsFunc(p.DNSServers, isOwn) && (n == nil || !slices.ContainsFunc(n.Gateways(), isOwn))
}

// WithoutResolver counts guests without a resolver address.
func (l *List) WithoutResolver() (guests int) {
	for _, w := range l.Without {
		guests += w.Guests
	}
	return guests
}

// WhyNone returns why no guest is served, and what was expected.
func (c *Config) WhyNone(l *List) string {
	if n := l.WithoutResolver(); n > 0 {
		return fmt.Sprintf("%s none of %d a resolver address; expected one that the databases have, or an IP beside it", c.perGuestGive(), n)
	}
	return "expected the placement, chassis and databases that they are of"
}

const maxMachines = 4

// Why returns why the guests have no resolver address.
func (w *WithoutResolver) Why(c *Config) string {
	text := c.perGuestGive() + " them no resolver address"
	if len(w.Machines) > 0 {
		text += fmt.Sprintf(" (DHCP announces %s, left to the port that has the address)", JoinAddresses(w.Machines[:min(maxMachines, len(w.Machines))]))
	}
	return text
}

func (c *Config) perGuestWords() string {
	switch {
	case c.DHCP && c.Gateways:
		return "dhcp and gateway"
	case c.DHCP:
		return "dhcp"
	}
	return "gateway"
}

func (c *Config) perGuestGive() string {
	verb := "gives"
	if c.DHCP && c.Gateways {
		verb = "give"
	}
	return c.perGuestWords() + " of address " + verb
}

// WhyNoGuest returns why placement neutron has no guest, if Neutron's agent has bound no interface.
func (b Book) WhyNoGuest() string {
	if b.rules.Placement != placement.Neutron || b.view == nil {
		return ""
	}
	b.snapshot = nil // the agent binds by the local database
	unbound := 0
	for n := range b.view.Interfaces {
		i := &b.view.Interfaces[n]
		if i.OFPort == 0 || i.IfaceID == "" {
			continue
		}
		if _, ok := b.local(i); ok || i.Tag == deadVLAN || i.Tag != 0 && isService(i) {
			return ""
		}
		if !isService(i) {
			unbound++
		}
	}
	if unbound == 0 {
		return ""
	}
	return fmt.Sprintf("nobody is served: Neutron's Open vSwitch agent has bound none of the %d interfaces with an iface-id; "+
		"expected placement ovn with ovnhosts on a chassis of OVN, or placement table without that agent", unbound)
}
