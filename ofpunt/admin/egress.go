// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"context"
	"net/netip"
	"net/url"
	"slices"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/guests"
)

// listOpenings answers api.PathEgress.
func (a *answers) listOpenings(ctx context.Context, _ url.Values) (any, error) {
	out := &api.Egress{Openings: []api.Opening{}}
	for _, b := range a.bridges.All() {
		state := b.State()
		if state == nil {
			continue
		}
		all, err := b.Openings(ctx)
		if err != nil {
			out.Errors = append(out.Errors, "bridge "+state.Name+": "+err.Error())
			continue
		}
		book := guests.Book{}
		if state.Server != nil {
			book = state.Server.Book(state.View)
		}
		for i := range all {
			out.Openings = append(out.Openings, openingOf(state.Name, book, &all[i]))
		}
	}
	slices.SortStableFunc(out.Openings, func(a, b api.Opening) int {
		return cmp.Or(cmp.Compare(a.Bridge, b.Bridge), cmp.Compare(a.Port, b.Port), compareAddresses(a.Address, b.Address), cmp.Compare(a.TransportPort, b.TransportPort))
	})
	return out, nil
}

// listPolicies answers api.PathEgressPolicies.
func (a *answers) listPolicies(context.Context, url.Values) (any, error) {
	out := &api.EgressPolicies{Policies: []api.EgressPolicy{}}
	var northbound []api.EgressPolicy
	for _, b := range a.bridges.All() {
		state := b.State()
		if state == nil || state.Server == nil {
			continue
		}
		var all []origin.Origin
		for g := range state.Server.Book(state.View).All {
			all = append(all, g.OriginHere())
		}
		ofCorefile, ofNorthbound := state.Server.Chains().EgressPolicies(all)
		out.Policies, northbound = append(out.Policies, ofCorefile...), append(northbound, ofNorthbound...)
	}
	out.Policies = append(out.Policies, northbound...)
	return out, nil
}

func compareAddresses(a, b string) int {
	x, _ := netip.ParseAddr(a)
	y, _ := netip.ParseAddr(b)
	return x.Compare(y)
}

func openingOf(bridge string, book guests.Book, o *flows.Opened) api.Opening {
	out := api.Opening{
		Bridge: bridge, Address: o.To.Address.String(), Protocol: opening.ProtocolName(o.To.Protocol), TransportPort: o.To.Port,
		Names: o.Names, Packets: o.Packets, OpenedSecondsAgo: o.Age.Seconds(),
	}
	if g, ok := book.ByKey(o.Guest); ok {
		of := g.Origin(0)
		out.Port, out.Switch = of.Port, of.Switch
	}
	if o.Idle >= 0 {
		left := max(0, (o.Timeout - o.Idle).Seconds())
		out.ClosesInSeconds = &left
		if idle := o.Idle.Seconds(); o.Packets > 0 {
			out.LastPacketSecondsAgo = &idle
		}
	}
	return out
}
