// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"cmp"
	"context"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

func init() { control.Process.Answer(api.PathGuests, bridges.tellGuests) }

// tellGuests is the control.AnswerFunc of api.PathGuests.
func (r *registry) tellGuests(ctx context.Context, _ url.Values) (any, error) {
	out := &api.Guests{Guests: []api.Guest{}, Unserved: []api.Unserved{}}
	for _, b := range r.all() {
		srv, session := b.current.Load(), b.told.Load()
		if srv == nil || session == nil || session.flows.Yielding {
			out.Errors = append(out.Errors, "bridge "+b.name+": "+cmp.Or(b.readiness.reason(), "it is not served"))
			continue
		}
		t := guestTeller{teller: teller{bridge: b, srv: session.server, session: session, view: b.ports.View(), now: time.Now()}}
		t.tell(ctx, out)
	}
	slices.SortStableFunc(out.Guests, func(a, b api.Guest) int {
		return cmp.Or(cmp.Compare(a.Bridge, b.Bridge), cmp.Compare(a.Port, b.Port))
	})
	slices.SortStableFunc(out.Unserved, func(a, b api.Unserved) int {
		return cmp.Or(cmp.Compare(a.Bridge, b.Bridge), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Interface, b.Interface))
	})
	return out, nil
}

// guestTeller tells of the guests of one bridge.
type guestTeller struct {
	teller
	// snapshot is nil without databases.
	snapshot *ovn.Snapshot
	// interfaces are those of the bridge, by the logical ports that they are of, localnet ports
	// among them.
	interfaces map[string]*vswitch.Interface
	// counted are the counters by guest, nil if the switch has not told.
	counted map[placement.Key]*guestHits
	dhcp    map[string]ovndb.DHCP
	// served are the logical ports that have flows.
	served map[string]bool
}

// toldGuest is a guest, as the databases have it.
type toldGuest struct {
	port     *ovn.Port     // nil without databases
	localnet *ovn.Localnet // of an external port
	iface    *vswitch.Interface
}

func (t *guestTeller) tell(ctx context.Context, out *api.Guests) {
	if t.srv.source != nil {
		t.snapshot = t.srv.source.Snapshot()
	}
	t.index()
	t.served = map[string]bool{}
	if h, err := t.count(ctx); err != nil {
		out.Errors = append(out.Errors, "bridge "+t.bridge.name+": "+err.Error())
	} else {
		t.counted = h.byGuest(t.srv.options.Placement)
	}
	known := t.knownGuests()
	if t.srv.source != nil {
		var names []string
		for _, g := range known {
			if g.port != nil {
				names = append(names, g.port.Name)
			}
		}
		t.dhcp = t.srv.source.DHCPv4(names)
	}
	for i := range t.session.guests {
		g := &t.session.guests[i]
		of, ok := known[g.Key]
		if !ok {
			continue // it has gone since
		}
		told := t.guest(g, &of)
		t.served[told.Port] = true
		out.Guests = append(out.Guests, told)
	}
	t.tellUnserved(out)
}

// index finds the interfaces of the bridge.
func (t *guestTeller) index() {
	t.interfaces = map[string]*vswitch.Interface{}
	if t.view == nil {
		return
	}
	for i := range t.view.Interfaces {
		if i := &t.view.Interfaces[i]; i.IfaceID != "" || i.Localnet != "" {
			t.interfaces[cmp.Or(i.IfaceID, i.Localnet)] = i
		}
	}
}

// knownGuests returns who the guests in the switch are.
func (t *guestTeller) knownGuests() map[placement.Key]toldGuest {
	all := map[placement.Key]toldGuest{}
	if t.srv.options.Placement != placement.OVN {
		t.addLocal(all)
		return all
	}
	for p := range t.snapshot.Guests() {
		if p.IsExternal() {
			t.addExternal(all, p)
		} else {
			all[placement.Key{Datapath: p.DatapathKey, Port: p.Key}] = toldGuest{port: p, iface: t.interfaces[cmp.Or(p.Parent, p.Name)]}
		}
	}
	return all
}

// addLocal adds the guests that are interfaces of the bridge.
func (t *guestTeller) addLocal(all map[placement.Key]toldGuest) {
	if t.view == nil {
		return
	}
	for i := range t.view.Interfaces {
		i := &t.view.Interfaces[i]
		if g, p, ok := localGuest(&t.srv.options, i, t.snapshot); ok {
			all[g.Key] = toldGuest{port: p, iface: i}
		}
	}
}

// addExternal adds an external port, which is a guest for each localnet port and MAC address.
func (t *guestTeller) addExternal(all map[placement.Key]toldGuest, p *ovn.Port) {
	localnets := p.Localnets()
	for i := range localnets {
		l := &localnets[i]
		for _, mac := range p.MACs {
			if sender, _ := t.snapshot.External(p.DatapathKey, l.Key, mac); sender == p {
				all[placement.Key{Datapath: p.DatapathKey, Port: l.Key, MAC: mac}] = toldGuest{p, l, t.interfaces[l.Name]}
			}
		}
	}
}

func (t *guestTeller) guest(g *flows.Guest, of *toldGuest) api.Guest {
	out := api.Guest{Bridge: t.bridge.name, MACs: []string{}, Addresses: []string{}, Resolvers: t.resolvers(g), Hits: t.hits(g.Key)}
	if i := of.iface; i != nil {
		out.Port, out.Interface, out.InPort, out.Switch = i.IfaceID, i.Name, i.OFPort, i.NetworkID
		if i.AttachedMAC != "" && of.port == nil {
			out.MACs = append(out.MACs, i.AttachedMAC)
		}
	}
	if of.port != nil {
		t.addPort(&out, of.port)
	}
	if of.localnet != nil {
		out.VLAN = of.localnet.Tag
	}
	for _, a := range g.Owned {
		out.Owned = append(out.Owned, a.String())
	}
	return out
}

// addPort adds to a guest what the databases say of its port.
func (t *guestTeller) addPort(out *api.Guest, p *ovn.Port) {
	out.Port, out.Switch, out.Network = p.Name, p.SwitchName, p.Network.String()
	out.DatapathKey, out.PortKey, out.Kept = p.DatapathKey, p.Key, t.snapshot.IsRetained(p.Name)
	if p.IsContainer() {
		out.VLAN = p.Tag
	}
	for _, mac := range p.MACs {
		out.MACs = append(out.MACs, mac.String())
	}
	for _, a := range p.Addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	if n := t.snapshot.Network(p.Network); n != nil {
		for _, f := range n.FunctionPorts() {
			out.FunctionPorts = append(out.FunctionPorts, api.FunctionPort{Port: f.Name, PortKey: f.Key})
		}
	}
	if d, ok := t.dhcp[p.Name]; ok {
		out.DHCP = &api.DHCP{Row: d.Row, CIDR: d.CIDR, Router: d.Router, Routes: d.Routes, DNSServer: d.DNSServer, DomainName: d.DomainName}
	}
}

// hits returns the counters of a guest, nil if the switch has not told any.
func (t *guestTeller) hits(of placement.Key) *api.Hits {
	if t.counted == nil {
		return nil
	}
	h := t.counted[of]
	if h == nil {
		return &api.Hits{}
	}
	out := &api.Hits{Flows: h.flows, Queries: h.queries, Neighbors: h.neighbors}
	if !h.lastQuery.IsZero() {
		ago := max(0, t.now.Sub(h.lastQuery).Seconds())
		out.LastQuerySecondsAgo = &ago
	}
	return out
}

// resolvers returns the resolver addresses of a guest.
func (t *guestTeller) resolvers(g *flows.Guest) (all []string) {
	o := &t.srv.options
	if o.hijack() {
		return []string{"any"}
	}
	all = []string{}
	for _, list := range [][]netip.AddrPort{o.Addresses, g.Addresses} {
		for _, a := range list {
			if !slices.Contains(g.Left, a.Addr()) {
				all = append(all, a.String())
			}
		}
	}
	return all
}

// tellUnserved tells of the interfaces that are not served, and of guests without a resolver
// address.
func (t *guestTeller) tellUnserved(out *api.Guests) {
	if t.view == nil {
		return
	}
	for i := range t.view.Interfaces {
		i := &t.view.Interfaces[i]
		if i.IfaceID != "" && t.served[i.IfaceID] {
			continue
		}
		reason, expected := t.whyUnserved(i)
		if reason == "" {
			continue
		}
		u := api.Unserved{Bridge: t.bridge.name, Interface: i.Name, Port: i.IfaceID, InPort: i.OFPort, Reason: reason, Expected: expected}
		if reason == t.noAddress() {
			u.Code = api.CodeNoAddress
		}
		out.Unserved = append(out.Unserved, u)
	}
}

// Types of interfaces that no guest has: they join bridges and nodes (ovs-vswitchd.conf.db(5)).
var tunnelTypes = []string{"patch", "geneve", "vxlan", "gre", "ip6gre", "erspan", "ip6erspan", "stt", "lisp", "gtpu", "bareudp", "srv6"}

// whyUnserved returns why an interface that has no flows is not served, and whether it is not meant
// to be; "" for one that no guest could have.
func (t *guestTeller) whyUnserved(i *vswitch.Interface) (reason string, expected bool) {
	switch {
	case slices.Contains(tunnelTypes, i.Type) || i.Name == t.bridge.name || i.Localnet != "":
		return "", true
	case i.IfaceID == "":
		return "it has no external_ids:iface-id, so it is of no logical port", true
	case i.OFPort == 0:
		return "the switch has given it no OpenFlow port: its device is missing or broken (ovs-vsctl get interface " + i.Name + " error)", false
	}
	if t.srv.options.Placement != placement.OVN {
		if reason, expected := whyNotLocal(&t.srv.options, i); reason != "" {
			return reason, expected
		}
	}
	if reason, ok := t.session.unserved[i.IfaceID]; ok {
		return reason, false
	}
	if t.snapshot == nil {
		return "it was plugged a moment ago", true
	}
	switch p := t.snapshot.PortByName(i.IfaceID); {
	case p == nil:
	case t.srv.options.serves(p):
		if t.srv.options.isAddressless(t.snapshot, p) {
			return t.noAddress(), false
		}
		return "it was plugged a moment ago", true
	case t.srv.source.NeedsConfirmation():
		return "Southbound is not in sync, and the flows of ovn-controller do not confirm that the port is as in the saved snapshot, at this interface", false
	}
	return "its logical port is of a type that is no guest, such as a localport, or its row has not been read yet", true
}

// noAddress is the reason of a guest that lacks nothing but a resolver address.
func (t *guestTeller) noAddress() string {
	return "it has no resolver address: the databases give it none (address " + t.srv.options.perGuestWords() + ")"
}

// whyNotLocal returns why an interface is no guest where OVN does not say who is, "" if it may be one.
func whyNotLocal(o *bridgeOptions, i *vswitch.Interface) (reason string, expected bool) {
	switch {
	case isService(i):
		return "it is of a DHCP agent or a router of Neutron's", true
	case i.Tag == deadVLAN:
		return "it has the tag 4095: Neutron's agent has not bound it, or cuts it off", false
	case o.Placement != placement.Neutron:
		return "", false
	case i.Tag == 0:
		return "it has no tag: Neutron's agent has not bound it", false
	}
	if _, _, ok := localGuest(o, i, nil); !ok {
		return "its external_ids have no attached-mac that is a MAC address", false
	}
	return "", false
}
