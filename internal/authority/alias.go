// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"context"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/upstream"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// maxChain limits CNAME chains and nested lookups, as *file* does (plugin/file/lookup.go).
const maxChain = 8

// dropAliasAtApex ignores a CNAME at the apex of the asker's domain (RFC 2181, section 10.1).
func (q *Question) dropAliasAtApex() {
	if q.Known.RRs.Alias() != "" && q.State.Name() == q.Asker.Domain {
		q.Known.RRs = nil
	}
}

// target returns the canonical alias target, "" for none.
func (q *Question) target() string {
	if qtype := q.State.QType(); !q.Found || q.State.QClass() != dns.ClassINET || qtype == dns.TypeCNAME || qtype == dns.TypeANY {
		return ""
	}
	return q.Known.RRs.Alias()
}

// follow adds records of targets in scope, then the server's answer. It fails if the chain is too long, a
// lookup fails, or the scope is unread.
func (p *Policy) follow(ctx context.Context, q Question, m *dns.Msg) bool {
	for links := 0; q.target() != ""; links++ {
		if links == maxChain {
			explainChain(ctx, &q)
			return false
		}
		cname, ok := m.Answer[len(m.Answer)-1].(*dns.CNAME)
		if !ok {
			return false
		}
		next, local := p.next(&q, cname.Target)
		if !local {
			return p.lookUp(ctx, &q, cname.Target, m)
		}
		if !next.Found && q.Asker.Unread {
			return false
		}
		part, _ := p.reply(&next)
		m.Answer = append(m.Answer, part.Answer...)
		m.Ns, m.Extra, m.Rcode = part.Ns, part.Extra, part.Rcode
		q = next
	}
	return true
}

// next reports whether this plugin answers for the target.
func (p *Policy) next(q *Question, target string) (next Question, local bool) {
	next = *q
	next.State = q.State.NewWithQuestion(target, q.State.QType())
	qname := next.State.Name()
	next.Zone, next.Known, next.Found = plugin.Zones(q.Zones).Matches(qname), names.Answer{}, false
	if next.Zone == "" || qname == "." {
		return next, false
	}
	next.Known, next.Found = q.Asker.Scope.Lookup(qname, p.Domain)
	next.dropAliasAtApex()
	return next, next.Found || p.route(&q.Asker, qname, q.State.QType()) == toHere
}

// lookUp queries the server's plugins as the same asker.
func (p *Policy) lookUp(ctx context.Context, q *Question, target string, m *dns.Msg) bool {
	if !q.State.Req.RecursionDesired {
		return true // the sender follows the alias itself
	}
	nested, _ := ctx.Value(dnsserver.LoopKey{}).(int)
	if nested >= maxChain {
		explainChain(ctx, q)
		return false
	}
	ctx = context.WithValue(ctx, dnsserver.LoopKey{}, nested+1)
	found, err := upstream.New().Lookup(ctx, q.State, target, q.State.QType())
	if err != nil || found == nil || found.Rcode == dns.RcodeServerFailure {
		return false
	}
	m.Answer = append(m.Answer, found.Answer...)
	m.Ns, m.Truncated = found.Ns, found.Truncated
	if found.Rcode == dns.RcodeNameError {
		m.Rcode = dns.RcodeNameError // of the last name (RFC 6604, section 3)
	}
	// For any other rcode, such as REFUSED for a target in no block, the alias is the answer.
	return true
}
