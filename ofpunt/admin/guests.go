// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/control/remedy"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/ofpunt/bridge"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/refusals"
)

// listGuests answers api.PathGuests.
func (a *answers) listGuests(ctx context.Context, _ url.Values) (any, error) {
	return a.guests(ctx), nil
}

func (a *answers) guests(ctx context.Context) *api.Guests {
	out := &api.Guests{Guests: []api.Guest{}, Unserved: []api.Unserved{}}
	for _, b := range a.bridges.All() {
		state := b.State()
		if state == nil {
			continue
		}
		if state.Session == nil || state.Session.Flows.Yielding {
			out.Errors = append(out.Errors, "bridge "+state.Name+": "+cmp.Or(state.Waiting, "it is not served"))
			continue
		}
		newGuestLister(b, state, state.Session.Server).list(ctx, out)
	}
	slices.SortStableFunc(out.Guests, func(a, b api.Guest) int {
		return cmp.Or(cmp.Compare(a.Bridge, b.Bridge), cmp.Compare(a.Port, b.Port))
	})
	slices.SortStableFunc(out.Unserved, func(a, b api.Unserved) int {
		return cmp.Or(cmp.Compare(a.Bridge, b.Bridge), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Interface, b.Interface))
	})
	return out
}

type guestLister struct {
	*bridgeStatus
	book guests.Book
	// counted is nil if the switch has not answered.
	counted map[placement.Key]*bridge.GuestCounters
	// Copied from [bridge.Counters].
	droppedARP map[placement.Key]uint64
	portConfig map[uint32]uint32
	// Copied from [bridge.Counters], nil if the switch has not answered.
	closedByACL placement.ClosedByACL
	dhcp        map[string]ovndb.DHCP
}

func newGuestLister(b *bridge.Bridge, state *bridge.State, srv *bridge.Server) *guestLister {
	return &guestLister{bridgeStatus: &bridgeStatus{State: state, bridge: b, srv: srv, now: time.Now()}, book: srv.Book(state.View)}
}

func (t *guestLister) list(ctx context.Context, out *api.Guests) {
	if h, err := t.bridge.Count(ctx); err != nil {
		out.Errors = append(out.Errors, "bridge "+t.Name+": "+err.Error())
	} else {
		t.counted, t.droppedARP, t.portConfig, t.closedByACL = h.ByGuest(t.srv.Options.Placement), h.DroppedARP, h.PortConfig, h.ClosedByACL
	}
	known := map[placement.Key]*guests.Guest{}
	var names []string
	for g := range t.book.All {
		known[g.Key] = &g
		if g.Port != nil {
			names = append(names, g.Port.Name)
		}
	}
	if t.srv.Names() != nil {
		t.dhcp = t.srv.Names().DHCPv4(names)
	}
	served := map[string][]string{} // interfaces of guests with flows, by logical port
	for i := range t.Session.List.Served {
		s := &t.Session.List.Served[i]
		g := known[s.Key]
		if g == nil {
			continue // gone since
		}
		row := t.guest(s, g)
		served[row.Port] = append(served[row.Port], row.Interface)
		out.Guests = append(out.Guests, row)
	}
	t.listUnserved(served, out)
}

func (t *guestLister) guest(s *guests.Served, g *guests.Guest) api.Guest {
	out := api.Guest{Bridge: t.Name, MACs: []string{}, Addresses: []string{}, Resolvers: t.resolvers(s), FlowCounters: t.flowCounters(s.Key)}
	if i := g.Interface; i != nil {
		out.Port, out.Interface, out.InPort, out.Switch = i.IfaceID, i.Name, i.OFPort, i.NetworkID
	}
	out.VLAN = g.VLAN()
	if g.Port != nil {
		t.addPort(&out, g)
	}
	addAttachedMAC(&out, g)
	for _, a := range s.Owned {
		out.Owned = append(out.Owned, a.String())
	}
	for _, a := range s.Left {
		out.Left = append(out.Left, a.String())
	}
	o := g.Origin(0)
	out.Refused = t.refused(refusals.Guest{Port: o.Port, Switch: o.Switch})
	out.DroppedARP = t.droppedARP[placement.Key{Datapath: s.Key.Datapath, Port: s.Key.Port}]
	out.LinkDown = g.Interface != nil && g.Interface.LinkDown()
	out.PortConfig = portConfigWords(t.portConfig[out.InPort])
	out.Egress = t.egress(s)
	addProblems(&out)
	return out
}

// addAttachedMAC adds attached-mac for a guest without a logical port, or with other MAC addresses there. A guest
// behind another, by its VLAN, has the other's interface.
func addAttachedMAC(out *api.Guest, g *guests.Guest) {
	if g.Interface == nil {
		return
	}
	mac, ok := guests.AttachedMAC(g.Interface)
	text := net.HardwareAddr(mac[:]).String()
	switch {
	case !ok:
	case out.Network == "":
		out.MACs = append(out.MACs, text)
	case out.VLAN == 0 && len(out.MACs) > 0 && !slices.Contains(out.MACs, text):
		out.AttachedMAC = text
	}
}

// portConfigWords returns ovs-ofctl(8)'s words for bits that stop queries or answers.
func portConfigWords(config uint32) (words []string) {
	if config&openflow.PortNoReceive != 0 {
		words = append(words, api.PortNoReceive)
	}
	if config&openflow.PortNoForward != 0 {
		words = append(words, api.PortNoForward)
	}
	return words
}

func (t *guestLister) addPort(out *api.Guest, g *guests.Guest) {
	p := g.Port
	out.Port, out.Switch, out.Network = p.Name, p.SwitchName, p.Network.String()
	out.DatapathKey, out.PortKey, out.Retained = p.DatapathKey, p.Key, t.srv.Names().Snapshot().IsRetained(p.Name)
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

// flowCounters is nil without counters of the switch.
func (t *guestLister) flowCounters(of placement.Key) *api.FlowCounters {
	if t.counted == nil {
		return nil
	}
	h := t.counted[of]
	if h == nil {
		return &api.FlowCounters{}
	}
	out := &api.FlowCounters{Flows: h.Flows, Queries: h.Queries, Neighbors: h.Neighbors}
	if !h.LastQuery.IsZero() {
		ago := max(0, t.now.Sub(h.LastQuery).Seconds())
		out.LastQuerySecondsAgo = &ago
	}
	return out
}

// egress is nil without counters of the switch, and without policy and ACLs.
func (t *guestLister) egress(s *guests.Served) *api.GuestEgress {
	out := &api.GuestEgress{Policy: s.Egress != nil, Closed: []string{}, Bit: t.srv.ExpectedBit()}
	closed := t.closedByACL.Of(s.Key)
	for i, is := range []bool{closed.IPv4, closed.IPv6} {
		if is {
			out.Closed = append(out.Closed, families[i])
		}
	}
	if t.closedByACL == nil || !out.Policy && len(out.Closed) == 0 {
		return nil
	}
	return out
}

func (t *guestLister) resolvers(g *guests.Served) (all []string) {
	o := &t.srv.Options
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

// listUnserved also lists guests without a resolver address. served is [guests.Known.Served].
func (t *guestLister) listUnserved(served map[string][]string, out *api.Guests) {
	if t.View == nil {
		return
	}
	known := guests.Known{
		Bridge: t.Name, NotHere: t.Session.NotHere, Served: served,
		Unconfirmed: t.srv.Names() != nil && t.srv.Names().NeedsConfirmation(),
	}
	for i := range t.View.Interfaces {
		i := &t.View.Interfaces[i]
		if names := served[i.IfaceID]; i.IfaceID != "" && (slices.Contains(names, i.Name) || slices.Contains(names, "")) {
			continue
		}
		why := t.book.WhyNot(i, &known)
		if why.Text() == "" {
			continue
		}
		u := api.Unserved{Bridge: t.Name, Interface: i.Name, Port: i.IfaceID, InPort: i.OFPort, Reason: why.Text(), Expected: why.Expected(), Remedy: why.Remedy()}
		if p := t.book.PortOf(i); p != nil {
			u.Switch, u.Network = p.SwitchName, p.Network.String()
		}
		if why.Code == guests.NoResolver {
			u.Code = api.CodeNoAddress
			u.Remedy = remedy.Of(u.Code, &remedy.Context{}).Text
		}
		out.Unserved = append(out.Unserved, u)
	}
}
