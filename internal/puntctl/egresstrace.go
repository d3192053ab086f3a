// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"context"
	"fmt"
	"slices"

	"github.com/puntdns/puntdns/internal/control/api"
)

// egress traces packets of a guest with an egress policy to addresses that no answer has opened. The ACLs of the
// guest may be complete, and another ACL let the packets pass before them.
func (t *tracer) egress(ctx context.Context, g *api.Guest, entry *uint8) (all []finding, err error) {
	if g.Egress == nil || !g.Egress.Policy || g.PortKey == 0 || entry == nil {
		return nil, nil
	}
	for _, q := range packetsOf(g) {
		q.port, q.tcp = 443, true
		trace, err := t.trace(ctx, g.Bridge, q.flow())
		if err != nil {
			return all, err
		}
		w := readTrace(trace, entry)
		family := "ip6"
		if q.from.Is4() {
			family = "ip4"
		}
		if f := egressFinding(&q, &w, slices.Contains(g.Egress.Closed, family)); f.Text != "" {
			f.About = "port " + g.Port
			all = append(all, f)
		}
	}
	return all, nil
}

// egressFinding has no text if there is nothing to say. hasACL: an ACL drops packets without the bit of the policy.
func egressFinding(q *query, w *way, hasACL bool) finding {
	what := fmt.Sprintf("a TCP packet to %s, which no answer has opened, ", q.to)
	switch {
	case w.marks&(1<<q.guest.Egress.Bit) != 0, w.passed && !hasACL:
		return finding{} // the policy allows the address itself; or package admin has found that ACLs are missing
	case w.passed:
		return finding{
			Level: levelProblem, Code: api.CodeEgressOpen, Text: what + "passes the ACLs: one of a higher priority or of an earlier tier allows it",
			Remedy: "find that ACL by the logical flows of ls_in_acl in the trace, and lower its priority below 32766", Commands: q.lines(), Docs: "docs/egress.md#see-it",
		}
	case hasACL:
		return finding{Level: levelOK, Text: what + "is dropped"}
	}
	return finding{
		Level: levelProblem, Text: what + fmt.Sprintf("is dropped, and not because of bit %d of pkt_mark: packets to open addresses may be dropped too", q.guest.Egress.Bit),
		Remedy: "have the ACLs match the bit of egress, or set `bit` in egress to the bit of the ACLs", Commands: append([]string{"ovs-ofctl dump-flows " + q.guest.Bridge + " | grep pkt_mark"}, q.lines()...), Docs: "docs/egress.md#see-it",
	}
}
