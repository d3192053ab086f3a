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

const maxCandidates = 8

// findGuest returns the guest that a word means, see [api.Guests.Find]; several are an error. unserved is set for an
// interface that is not served.
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
	if len(all.Errors) > 0 { // the guest may be on a bridge that is not served
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

func packetOf(g *api.Guest, kind placement.Kind) (in openflow.PacketIn) {
	in.InPort = g.InPort
	if kind != placement.OVN {
		return in
	}
	in.Metadata = uint64(g.DatapathKey)
	in.Regs[placement.RegInPort] = g.PortKey
	return in
}

func (t *guestLister) keyOf(reported *api.Guest) (key placement.Key, ok bool) {
	for g := range t.book.All {
		switch {
		case g.Port != nil && g.Port.Name != reported.Port, g.Port == nil && g.Interface.IfaceID != reported.Port:
		case g.Localnet != nil && (g.Interface == nil || g.Interface.Name != reported.Interface || len(reported.MACs) > 0 && net.HardwareAddr(g.Key.MAC[:]).String() != reported.MACs[0]):
		default:
			return g.Key, true
		}
	}
	return key, false
}

// showFlows leaves out openings, of which a guest may have a thousand.
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
		role, of, _ := placement.Read(kind, f)
		switch {
		case role == placement.RoleNone, role == placement.RoleOpening:
			continue
		case role == placement.RoleLease:
			punt++
		case role != placement.RoleOnward && of != key:
			continue
		}
		out.Flows = append(out.Flows, api.GuestFlow{
			Table: f.Table, Priority: f.Priority, Match: cmp.Or(f.Match.String(), "any"), For: role.String(), Packets: f.Packets,
		})
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

// withoutPuntdns says what a guest gets while puntdns does not run: the DNS rows of its switch by OVN's own DNS
// (ovn-nb(5), table DNS), or its server's answer.
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
