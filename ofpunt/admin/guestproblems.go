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
	"github.com/puntdns/puntdns/ofpunt/bridge"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/refusals"
)

// guestProblems are problems that puntdns sees without a query, for guests, doctor and explain. find returns "" for
// none. Package remedy has the remedies.
var guestProblems = []struct {
	code string
	find func(g *api.Guest) string
	// Before the commands of the remedy; may be nil.
	commands func(g *api.Guest) []string
}{
	{code: api.CodeNoFlows, find: func(g *api.Guest) string {
		if g.FlowCounters == nil || g.FlowCounters.Flows > 0 {
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
	{code: api.CodeEgressOpen, find: egressOpen},
	{code: api.CodeEgressWithoutPolicy, find: func(g *api.Guest) string {
		if g.Egress == nil || g.Egress.Policy || len(g.Egress.Closed) == 0 {
			return ""
		}
		return fmt.Sprintf("ACLs drop packets of the guest that have bit %d of pkt_mark unset (%s), and no egress policy opens an address for it", g.Egress.Bit, strings.Join(g.Egress.Closed, ", "))
	}},
	{code: api.CodeNotAnnounced, find: notAnnounced, commands: announce},
	{code: api.CodeFirstServer, find: func(g *api.Guest) string {
		all := announced(g)
		first := slices.IndexFunc(all, func(a netip.Addr) bool { return isResolver(g, a) })
		if first < 1 { // the first is a resolver address, or none is, which has its own code
			return ""
		}
		return fmt.Sprintf("DHCP announces %s before the resolver address %s, so the guest asks it first", all[0], all[first])
	}},
}

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

// families are the values of api.GuestEgress.Closed.
var families = []string{"ip4", "ip6"}

func egressOpen(g *api.Guest) string {
	if g.Egress == nil || !g.Egress.Policy {
		return ""
	}
	open := slices.DeleteFunc(slices.Clone(families), func(f string) bool { return slices.Contains(g.Egress.Closed, f) })
	if len(open) == 0 {
		return ""
	}
	return fmt.Sprintf("the guest has an egress policy, and no ACL drops its packets that have bit %d of pkt_mark unset (%s): egress closes no address, and other ACLs decide what the guest reaches", g.Egress.Bit, strings.Join(open, ", "))
}

// notAnnounced is "" if DHCP's options are not known.
func notAnnounced(g *api.Guest) string {
	all := announced(g)
	switch {
	case g.DHCP == nil || len(g.DHCPResolvers()) == 0 || slices.ContainsFunc(all, func(a netip.Addr) bool { return isResolver(g, a) }):
		return ""
	case len(all) == 0:
		return fmt.Sprintf("DHCP announces no dns_server to the guest; its resolver addresses are %s", strings.Join(g.Resolvers, " "))
	}
	return fmt.Sprintf("DHCP announces dns_server %s to the guest, and none of these is a resolver address of the guest (%s)", g.DHCP.DNSServer, strings.Join(g.Resolvers, " "))
}

func announce(g *api.Guest) []string {
	return []string{"ovn-nbctl set DHCP_Options " + shell.Word(g.DHCP.Row) + ` options:dns_server='"{` + g.DHCPResolvers()[0].String() + `}"'`}
}

func dropsByConfig(words []string) string {
	drops := map[string]string{api.PortNoReceive: "the queries of the guest", api.PortNoForward: "the answers to the guest"}
	var all []string
	for _, word := range words {
		all = append(all, drops[word])
	}
	return strings.Join(all, " and ")
}

func isResolver(g *api.Guest, a netip.Addr) bool {
	return slices.ContainsFunc(g.Resolvers, func(r string) bool { return r == "any" || sameAddress(r, a) })
}

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

// persistentWarning takes the number of ACLs with persist-established.
func (t *bridgeStatus) persistentWarning(acls int) []api.Problem {
	if acls == 0 || t.Session == nil || !slices.ContainsFunc(t.Session.List.Served, func(s guests.Served) bool { return s.Egress != nil }) {
		return nil
	}
	return []api.Problem{{
		Code: api.CodeEgressPersistent, About: t.Name,
		Text: fmt.Sprintf("%d ACLs have persist-established: a connection that one of them allows goes on when egress closes its address", acls),
	}}
}

// openWarning takes nil for unknown ACLs.
func (t *bridgeStatus) openWarning(closed placement.ClosedByACL) []api.Problem {
	if t.Session == nil || t.Waiting != "" || closed == nil { // a bridge that is not served may have lost all flows
		return nil
	}
	open := bridge.CountOpen(t.Session.List, closed)
	if open == 0 {
		return nil
	}
	return []api.Problem{{
		Code: api.CodeEgressOpen, About: t.Name,
		Text:   fmt.Sprintf("guests with an egress policy that lack the ACLs for its bit of pkt_mark: %d", open),
		Remedy: "`puntctl doctor` names them",
	}}
}
