// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/control/remedy"
	"github.com/puntdns/puntdns/internal/shell"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/refusals"
)

// guestProblems has a row for each problem of a guest that the process sees without a query. find returns what
// was seen, or "". guests, doctor and explain show the problems of the table; the remedy of a code is in
// package remedy.
var guestProblems = []struct {
	code string
	find func(g *api.Guest) string
	// commands returns commands before the commands of the remedy, nil for none.
	commands func(g *api.Guest) []string
}{
	{code: api.CodeNoFlows, find: func(g *api.Guest) string {
		if g.Hits == nil || g.Hits.Flows > 0 {
			return ""
		}
		return "the switch has no flow of this guest, so none of its queries is punted"
	}},
	{code: api.CodeLinkDown, find: func(g *api.Guest) string {
		if !g.LinkDown {
			return ""
		}
		return fmt.Sprintf("the link of interface %s is down, so the guest can neither ask nor be answered", g.Interface)
	}},
	{code: api.CodeAddressTaken, find: func(g *api.Guest) string {
		if len(g.Left) == 0 {
			return ""
		}
		return fmt.Sprintf("another port of switch %s has the resolver address %s, so puntdns leaves the queries for it to that port", g.Switch, strings.Join(g.Left, " and "))
	}},
	{code: api.CodeAttachedMAC, find: func(g *api.Guest) string {
		if g.AttachedMAC == "" {
			return ""
		}
		return fmt.Sprintf("attached-mac of interface %s is %s, and its logical port has %s: port security, where the port has it, drops what the guest sends", g.Interface, g.AttachedMAC, strings.Join(g.MACs, " "))
	}},
	{code: api.CodePortConfig, find: func(g *api.Guest) string {
		if len(g.PortConfig) == 0 {
			return ""
		}
		return fmt.Sprintf("OpenFlow port %d of the guest has the config %s, so the switch drops %s", g.InPort, strings.Join(g.PortConfig, " and "), dropsByConfig(g.PortConfig))
	}},
	{code: api.CodeOverLimit, find: func(g *api.Guest) string {
		if len(g.Refused) == 0 {
			return ""
		}
		return "limits have refused queries of the guest within the last minute: " + refusedText(g.Refused)
	}},
	{code: api.CodePortSecurity, find: func(g *api.Guest) string {
		if g.DroppedARP == 0 {
			return ""
		}
		return fmt.Sprintf("OVN's port security has dropped ARP packets of the guest within the last minute, %d since its flows were made: the guest uses, or probes, a MAC or IPv4 address that its logical port may not use", g.DroppedARP)
	}},
	{code: api.CodeNotAnnounced, find: notAnnounced, commands: announce},
	{code: api.CodeFirstServer, find: func(g *api.Guest) string {
		all := announced(g)
		first := slices.IndexFunc(all, func(a netip.Addr) bool { return isResolver(g, a) })
		if first < 1 { // the first server is one, or no server is: that has a code of its own
			return ""
		}
		return fmt.Sprintf("DHCP announces %s before the resolver address %s, so the guest asks it first", all[0], all[first])
	}},
}

// addProblems adds the problems of guestProblems to a guest.
func addProblems(g *api.Guest) {
	for _, p := range guestProblems {
		text := p.find(g)
		if text == "" {
			continue
		}
		found := api.Problem{Code: p.code, About: g.Port, Text: text}
		if p.commands != nil {
			found.Commands = p.commands(g)
		}
		g.Problems = append(g.Problems, found)
	}
	remedy.FillGuest(g)
}

// notAnnounced says that DHCP does not announce a resolver address, "" if it does, or if its options are not known.
func notAnnounced(g *api.Guest) string {
	all := announced(g)
	switch {
	case g.DHCP == nil || !firstResolver4(g).IsValid() || slices.ContainsFunc(all, func(a netip.Addr) bool { return isResolver(g, a) }):
		return ""
	case len(all) == 0:
		return fmt.Sprintf("DHCP announces no dns_server to the guest; its resolver addresses are %s", strings.Join(g.Resolvers, " "))
	}
	return fmt.Sprintf("DHCP announces dns_server %s to the guest, and none of these is a resolver address of the guest (%s)", g.DHCP.DNSServer, strings.Join(g.Resolvers, " "))
}

// announce returns the command that has DHCP announce a resolver address.
func announce(g *api.Guest) []string {
	return []string{"ovn-nbctl set DHCP_Options " + shell.Word(g.DHCP.Row) + ` options:dns_server='"{` + firstResolver4(g).String() + `}"'`}
}

// firstResolver4 returns the first IPv4 resolver address with port 53, the zero Addr for none.
func firstResolver4(g *api.Guest) netip.Addr {
	for _, r := range g.Resolvers {
		if a, err := netip.ParseAddrPort(r); err == nil && a.Addr().Is4() && a.Port() == placement.DNSPort {
			return a.Addr()
		}
	}
	return netip.Addr{}
}

// dropsByConfig returns what the switch drops by the config of a port.
func dropsByConfig(words []string) string {
	drops := map[string]string{api.PortNoReceive: "the queries of the guest", api.PortNoForward: "the answers to the guest"}
	var all []string
	for _, word := range words {
		all = append(all, drops[word])
	}
	return strings.Join(all, " and ")
}

// isResolver reports whether an address is a resolver address of a guest.
func isResolver(g *api.Guest, a netip.Addr) bool {
	return slices.ContainsFunc(g.Resolvers, func(r string) bool { return r == "any" || sameAddress(r, a) })
}

// refused returns what limits refuse a guest, by property; nil for nothing.
func (t *bridgeStatus) refused(g refusals.Guest) map[string]uint64 {
	var all map[string]uint64
	for kind, n := range t.Refusals.Of(g) {
		if n == 0 {
			continue
		}
		if all == nil {
			all = map[string]uint64{}
		}
		all[punt.Properties[refusals.Kind(kind)]] = n
	}
	return all
}

func refusedText(byProperty map[string]uint64) string {
	var words []string
	for _, property := range slices.Sorted(maps.Keys(byProperty)) {
		words = append(words, fmt.Sprintf("%d by %s", byProperty[property], property))
	}
	return strings.Join(words, ", ")
}

// limitWarning returns a warning if limits refuse queries of guests.
func (t *bridgeStatus) limitWarning() []api.Problem {
	most, n := t.Refusals.Busiest()
	if n == 0 || t.Session == nil { // without a session, old refusals do not expire
		return nil
	}
	return []api.Problem{{
		Code: api.CodeOverLimit, About: t.Name,
		Text: fmt.Sprintf("limits have refused queries of %d guests within the last minute, most of port %q of switch %q: %s", n, most.Port, most.Switch, refusedText(t.refused(most))),
	}}
}
