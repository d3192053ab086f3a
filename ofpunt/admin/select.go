// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/bridge"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// maxCandidates bounds those that an error names.
const maxCandidates = 8

// findGuest returns the guest that a word means, see [api.Guests.Find]. Several guests are an error that names
// them. unserved is set if the word means an interface that is not served.
func findGuest(all *api.Guests, word string) (g *api.Guest, unserved *api.Unserved, err error) {
	switch found := all.Find(word); len(found) {
	case 0:
	case 1:
		return found[0], nil, nil
	default:
		return nil, nil, ambiguous(word, found)
	}
	for i := range all.Unserved {
		if u := &all.Unserved[i]; u.Port == word || u.Interface == word {
			return nil, u, nil
		}
	}
	if len(all.Errors) > 0 { // the guest may be one of a bridge that is not served
		return nil, nil, control.NotFound("%.80q is not known: %s", word, strings.Join(all.Errors, "; "))
	}
	return nil, nil, control.NotFound("%.80q: no guest of this node has this port, interface or address; expected one that `puntctl guests` lists", word)
}

func ambiguous(word string, found []*api.Guest) error {
	var names []string
	for _, g := range found[:min(len(found), maxCandidates)] {
		names = append(names, fmt.Sprintf("port %s of switch %s on %s", g.Port, g.Switch, g.Bridge))
	}
	more := ""
	if n := len(found) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return badRequest("%.80q is ambiguous: %s%s have it; expected the name of one port", word, strings.Join(names, ", "), more)
}

// packetOf returns the packet-in that the switch would send for a query of a guest.
func packetOf(g *api.Guest, kind placement.Kind) (in openflow.PacketIn) {
	in.InPort = g.InPort
	if kind != placement.OVN {
		return in
	}
	in.Metadata = uint64(g.DatapathKey)
	in.Regs[placement.RegInPort] = g.PortKey
	return in
}

// keyOf returns the key of a guest in the switch.
func (t *guestLister) keyOf(told *api.Guest) (key placement.Key, ok bool) {
	for g := range t.book.All {
		switch {
		case g.Port != nil && g.Port.Name != told.Port, g.Port == nil && g.Interface.IfaceID != told.Port:
		case g.Localnet != nil && (g.Interface == nil || g.Interface.Name != told.Interface || len(told.MACs) > 0 && net.HardwareAddr(g.Key.MAC[:]).String() != told.MACs[0]):
		default:
			return g.Key, true
		}
	}
	return key, false
}

// showFlows shows the flows of a guest, and of the punt.
func (t *guestLister) showFlows(ctx context.Context, key placement.Key, out *api.Explanation) {
	h, err := t.bridge.Count(ctx)
	if err != nil {
		out.FlowsError = err.Error()
		return
	}
	kind := t.srv.Options.Placement
	punt := 0
	for i := range h.Flows {
		f := &h.Flows[i]
		told := api.GuestFlow{Table: f.Table, Priority: f.Priority, Match: cmp.Or(f.Match.String(), "any"), Packets: f.Packets}
		switch role, of, _ := placement.Read(kind, f); {
		case role == placement.RoleLease:
			told.For, punt = "punt", punt+1
		case role == placement.RoleOnward:
			told.For = "onward"
		case role == placement.RoleNone || of != key:
			continue
		case role == placement.RoleLimit:
			told.For = "limit"
		case role == placement.RoleClosed:
			told.For = "closed"
		case role == placement.RoleNeighbor:
			told.For = "neighbor"
		default:
			told.For = "query"
		}
		out.Flows = append(out.Flows, told)
	}
	slices.SortFunc(out.Flows, func(a, b api.GuestFlow) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Match, b.Match))
	})
	switch {
	case punt > 0:
	case t.Waiting != "":
		out.Findings = append(out.Findings, api.Problem{Code: api.CodeNotServed, About: t.Name, Text: "bridge " + t.Name + ": " + t.Waiting})
	default:
		out.Findings = append(out.Findings, api.Problem{
			Code: api.CodeLease, About: t.Name, Text: "the punt is not in the switch: its lease has expired, and no query is punted",
		})
	}
}

// withoutPuntdns says what a guest gets while puntdns does not run: what the DNS rows of its switch have,
// by OVN's own DNS (ovn-nb(5), table DNS), or what the server says that it asks.
func withoutPuntdns(s *bridge.Server, network *ovn.Network, name, qtype string, server netip.AddrPort, tcp bool) string {
	onward := "the query goes on to " + server.String()
	switch {
	case s.Options.Placement != placement.OVN:
		return onward
	case network == nil:
		return "its network is not known"
	case tcp:
		return onward + ": OVN's own DNS answers over UDP only"
	case server.Port() != placement.DNSPort:
		return onward + ": OVN's own DNS answers at port 53 only"
	}
	for _, k := range network.Candidates(name, "") {
		if k.Row == ([16]byte{}) || k.Derived || k.Unreadable || len(k.Records) > 0 {
			continue // OVN does not answer with records of other types
		}
		row := fmt.Sprintf("row %s of table DNS in Northbound", uuidOf(k.Row))
		var data []string
		for _, a := range k.Addresses {
			if qtype == "A" && a.Is4() || qtype == "AAAA" && a.Is6() || qtype == "ANY" {
				data = append(data, a.String())
			}
		}
		if qtype == "PTR" {
			data = k.Targets
		}
		if len(data) > 0 {
			return fmt.Sprintf("OVN's own DNS answers %s, by %s", strings.Join(data, " "), row)
		}
		return fmt.Sprintf("%s has the name without records of type %s; %s", row, qtype, onward)
	}
	return "no DNS row of its switch has the name; " + onward
}
