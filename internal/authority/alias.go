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

// maxChain bounds the CNAME records in a chain, and the depth of nested lookups, as CoreDNS's *file* does
// (plugin/file/lookup.go).
const maxChain = 8

// dropAliasAtApex ignores a CNAME record at the apex of the asker's domain, which has SOA and NS records (RFC 2181,
// section 10.1).
func (q *Question) dropAliasAtApex() {
	if q.Known.RRs.Alias() != "" && q.State.Name() == q.Asker.Domain {
		q.Known.RRs = nil
	}
}

// target returns the canonical target of the alias in the answer, "" for none.
func (q *Question) target() string {
	if qtype := q.State.QType(); !q.Found || q.State.QClass() != dns.ClassINET || qtype == dns.TypeCNAME || qtype == dns.TypeANY {
		return ""
	}
	return q.Known.RRs.Alias()
}

// follow completes the reply for an alias: with the records of the targets in the asker's scope, then with the
// server's answer for a target outside of it. It reports false if the chain is too long, a target cannot be
// looked up, or the scope is unread.
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

// next returns the question for the target of an alias, and reports whether this plugin answers it.
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

// lookUp completes the reply for an alias with the server's answer for its target. The lookup passes through the
// server's plugins, as a query of the same asker.
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
	// With any other rcode, such as REFUSED for a target in no server block, the alias is the answer.
	return true
}
