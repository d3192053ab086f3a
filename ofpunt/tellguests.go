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
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/ofpunt/guests"
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
		t := newGuestTeller(b, session.server, session)
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
	book guests.Book
	// counted are the counters by guest, nil if the switch has not told.
	counted map[placement.Key]*guestHits
	dhcp    map[string]ovndb.DHCP
}

func newGuestTeller(b *bridge, srv *server, session *sessionState) *guestTeller {
	view := b.ports.View()
	return &guestTeller{teller: teller{bridge: b, srv: srv, session: session, view: view, now: time.Now()}, book: srv.book(view)}
}

func (t *guestTeller) tell(ctx context.Context, out *api.Guests) {
	if h, err := t.count(ctx); err != nil {
		out.Errors = append(out.Errors, "bridge "+t.bridge.name+": "+err.Error())
	} else {
		t.counted = h.byGuest(t.srv.options.Placement)
	}
	known := map[placement.Key]*guests.Guest{}
	var names []string
	for g := range t.book.All {
		known[g.Key] = &g
		if g.Port != nil {
			names = append(names, g.Port.Name)
		}
	}
	if t.srv.source != nil {
		t.dhcp = t.srv.source.DHCPv4(names)
	}
	served := map[string]bool{} // the logical ports that have flows
	for i := range t.session.list.Served {
		s := &t.session.list.Served[i]
		g := known[s.Key]
		if g == nil {
			continue // it has gone since
		}
		told := t.guest(s, g)
		served[told.Port] = true
		out.Guests = append(out.Guests, told)
	}
	t.tellUnserved(served, out)
}

func (t *guestTeller) guest(s *guests.Served, g *guests.Guest) api.Guest {
	out := api.Guest{Bridge: t.bridge.name, MACs: []string{}, Addresses: []string{}, Resolvers: t.resolvers(s), Hits: t.hits(s.Key)}
	if i := g.Interface; i != nil {
		out.Port, out.Interface, out.InPort, out.Switch = i.IfaceID, i.Name, i.OFPort, i.NetworkID
		if i.AttachedMAC != "" && g.Port == nil {
			out.MACs = append(out.MACs, i.AttachedMAC)
		}
	}
	if g.Port != nil {
		t.addPort(&out, g)
	}
	out.VLAN = g.VLAN()
	for _, a := range s.Owned {
		out.Owned = append(out.Owned, a.String())
	}
	return out
}

// addPort adds to a guest what the databases say of its port.
func (t *guestTeller) addPort(out *api.Guest, g *guests.Guest) {
	p := g.Port
	out.Port, out.Switch, out.Network = p.Name, p.SwitchName, p.Network.String()
	out.DatapathKey, out.PortKey, out.Kept = p.DatapathKey, p.Key, t.srv.source.Snapshot().IsRetained(p.Name)
	for _, mac := range p.MACs {
		out.MACs = append(out.MACs, mac.String())
	}
	for _, a := range p.Addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	if n := g.Network(); n != nil {
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
func (t *guestTeller) resolvers(g *guests.Served) (all []string) {
	o := &t.srv.options
	if o.Hijack() {
		return []string{"any"}
	}
	all = []string{}
	for _, list := range [][]netip.AddrPort{o.Resolvers, g.Addresses} {
		for _, a := range list {
			if !slices.Contains(g.Left, a.Addr()) {
				all = append(all, a.String())
			}
		}
	}
	return all
}

// tellUnserved tells of the interfaces that are not served, and of guests without a resolver
// address. served has the logical ports that are.
func (t *guestTeller) tellUnserved(served map[string]bool, out *api.Guests) {
	if t.view == nil {
		return
	}
	known := guests.Known{
		Bridge: t.bridge.name, NotHere: t.session.unserved,
		Unconfirmed: t.srv.source != nil && t.srv.source.NeedsConfirmation(),
	}
	for i := range t.view.Interfaces {
		i := &t.view.Interfaces[i]
		if i.IfaceID != "" && served[i.IfaceID] {
			continue
		}
		why := t.book.WhyNot(i, &known)
		if why.Text == "" {
			continue
		}
		u := api.Unserved{Bridge: t.bridge.name, Interface: i.Name, Port: i.IfaceID, InPort: i.OFPort, Reason: why.Text, Expected: why.Expected}
		if why.NoResolver {
			u.Code = api.CodeNoAddress
		}
		out.Unserved = append(out.Unserved, u)
	}
}
