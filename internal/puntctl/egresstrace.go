// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/shell"
)

// egress traces a packet of a guest with an egress policy to an address that no answer has opened, and one to an open
// address. Another ACL may allow the first or drop the second, even if the guest has all ACLs of egress.
func (t *tracer) egress(ctx context.Context, g *api.Guest, entry *uint8) (all []finding, err error) {
	if g.Egress == nil || !g.Egress.Policy || g.PortKey == 0 || entry == nil {
		return nil, nil
	}
	add := func(f finding) {
		if f.Text != "" {
			f.About = "port " + g.Port
			all = append(all, f)
		}
	}
	open, err := t.openings(ctx)
	if err != nil {
		add(finding{Level: levelNote, Text: "open addresses can't be read: " + err.Error(), Remedy: "see whether `puntctl egress list` reports it too"})
	}
	for _, q := range packetsOf(g) {
		if q.assumed {
			continue // port security drops the packet
		}
		q.port, q.tcp, q.syn, q.to = 443, true, true, unopened6
		if q.from.Is4() {
			q.to = unopened4
		}
		trace, err := t.trace(ctx, g.Bridge, q.flow())
		if err != nil {
			return all, err
		}
		w, hasACL := readTrace(trace, entry), slices.Contains(g.Egress.Closed, family(q.from))
		add(egressFinding(&q, &w, hasACL))
		o := openAddress(open, g, q.from.Is4())
		if !hasACL || o == nil {
			continue
		}
		if q.to, err = netip.ParseAddr(o.Address); err != nil {
			return all, err
		}
		q.port = cmp.Or(o.TransportPort, q.port)
		if trace, err = t.trace(ctx, g.Bridge, q.flow()); err != nil {
			return all, err
		}
		w = readTrace(trace, entry)
		add(openedFinding(&q, &w, o))
	}
	return all, nil
}

// openAddress returns an opening of the guest that TCP packets pass, nil without one.
func openAddress(all []api.Opening, g *api.Guest, is4 bool) *api.Opening {
	i := slices.IndexFunc(all, func(o api.Opening) bool {
		return o.Bridge == g.Bridge && o.Port == g.Port && strings.Contains(o.Address, ":") != is4 && (o.Protocol == "" || o.Protocol == "tcp")
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// openedFinding is for a packet to an open address. It has no text if the address has closed meanwhile.
func openedFinding(q *query, w *way, o *api.Opening) finding {
	what := fmt.Sprintf("a TCP packet to %s, which is open by %s, ", netip.AddrPortFrom(q.to, q.port), strings.Join(o.Names, " "))
	switch {
	case w.marks&(1<<q.guest.Egress.Bit) == 0:
		return finding{}
	case !w.dropped || w.passed:
		return finding{Level: levelOK, Text: what + "passes the ACLs"}
	case strings.Contains(w.acl.flow, "pkt_mark=0/"):
		return finding{
			Level: levelProblem, Code: api.CodeEgressBlocked, Text: what + fmt.Sprintf("is dropped by an ACL for another bit of pkt_mark than bit %d of egress", q.guest.Egress.Bit),
			Remedy: "remove the ACLs for the other bit, or the port from their port group", Commands: append([]string{"ovn-nbctl --columns=match list ACL | grep pkt.mark", "ovn-nbctl --columns=name,ports list Port_Group"}, q.lines()...), Docs: "docs/egress.md#see-it",
		}
	}
	return finding{
		Level: levelNote, Text: what + "is dropped: " + w.acl.String(),
		Remedy: "an ACL of your own or port security may mean this; else look for the logical flow in the trace", Commands: q.lines(), Docs: "docs/egress.md#see-it",
	}
}

// No name opens these addresses for benchmarks and to discard (package address), so only a policy with the address does.
var unopened4, unopened6 = netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("100::1")

// egressFinding has no text if there is nothing to say. hasACL: an ACL drops packets without the bit of the policy.
func egressFinding(q *query, w *way, hasACL bool) finding {
	what := fmt.Sprintf("a TCP packet to %s, which no name opens, ", q.to)
	switch {
	case w.marks&(1<<q.guest.Egress.Bit) != 0, w.passed && !hasACL:
		return finding{} // the policy allows the address itself; or package admin has found that ACLs are missing
	case w.passed:
		return finding{
			Level: levelProblem, Code: api.CodeEgressOpen, Text: what + "passes the ACLs: one of a higher priority or of an earlier tier allows it",
			Remedy: "find that ACL by the logical flows of ls_in_acl in the trace, and lower its priority below 32766, or move it to a later tier", Commands: q.lines(), Docs: "docs/egress.md#see-it",
		}
	case hasACL:
		return finding{Level: levelOK, Text: what + "is dropped"}
	case !strings.Contains(w.acl.flow, "pkt_mark=0/"):
		return finding{} // another ACL drops it
	}
	return finding{
		Level: levelProblem, Code: api.CodeEgressBlocked, Text: what + fmt.Sprintf("is dropped for another bit of pkt_mark than bit %d of egress: packets to open addresses are dropped too", q.guest.Egress.Bit),
		Remedy: "have the ACLs match the bit of egress, or set `bit` in egress to the bit of the ACLs", Commands: append([]string{"ovs-ofctl dump-flows " + shell.Word(q.guest.Bridge) + " | grep pkt_mark"}, q.lines()...), Docs: "docs/egress.md#see-it",
	}
}
