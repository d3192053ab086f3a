// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/plugin/rpz/rules"
)

// answerWriter implements origin.Replacer.
type answerWriter struct {
	dns.ResponseWriter
	query *query
	// judged is the last judged answer, or nil. outcome is its result.
	judged  *dns.Msg
	outcome outcome
}

func (w *answerWriter) WriteMsg(m *dns.Msg) error {
	if w.Judge(m) {
		return w.query.write(&w.outcome)
	}
	return w.ResponseWriter.WriteMsg(m)
}

// Query implements origin.Replacer.
func (w *answerWriter) Query() *dns.Msg { return w.query.state.Req }

// Judge implements origin.Replacer. It counts and logs a rule once for an answer.
func (w *answerWriter) Judge(m *dns.Msg) (replaced bool) {
	if w.judged == m {
		return w.outcome.replaces
	}
	w.judged, w.outcome = m, outcome{}
	if m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError || len(m.Question) == 0 {
		return false
	}
	if found, before := w.query.walk(m); found != nil {
		w.outcome = w.query.act(found, &chain{m, before})
	}
	return w.outcome.replaces
}

// Write takes a whole DNS message.
func (w *answerWriter) Write(p []byte) (int, error) {
	m := new(dns.Msg)
	if err := m.Unpack(p); err != nil {
		return 0, err
	}
	if err := w.WriteMsg(m); err != nil {
		return 0, err
	}
	return len(p), nil
}

type chain struct {
	msg *dns.Msg
	// before are the records that lead to the name of the rule.
	before []dns.RR
}

// maxChain limits the CNAME records that are followed.
const maxChain = 16

// walk looks for a rule of the question, each CNAME target, and the last addresses. The first name with a
// rule decides (draft-vixie-dnsop-dns-rpz-00, section 5.1). before are the records above it.
func (q *query) walk(m *dns.Msg) (found *hit, before []dns.RR) {
	qtype := q.state.QType()
	owner, n := q.state.QName(), &q.name
	for i := range maxChain + 1 {
		s := step{qtype: qtype, checked: i == 0 && q.checked}
		cname := cnameOf(m, owner, qtype)
		if cname == nil || i == maxChain {
			s.answered, s.addresses = true, addressesOf(m, qtype)
		} else {
			s.unseen = true // its addresses belong to a later step
		}
		f, v := q.handler.decide(n, s)
		f.step = owner
		switch {
		case q.keepSigned && isSigned(m, owner, cname == nil):
			if v == act {
				q.record(&f, "signed")
			}
		case v == act:
			return &f, before
		default:
			q.logOnly(f.logged, owner)
		}
		if cname == nil {
			return nil, nil
		}
		before = append(before, recordsOf(m, owner)...)
		owner, n = cname.Target, new(rules.Name)
		if !n.Set(owner) {
			return nil, nil
		}
	}
	return nil, nil
}

func cnameOf(m *dns.Msg, owner string, qtype uint16) *dns.CNAME {
	if qtype == dns.TypeCNAME || qtype == dns.TypeANY {
		return nil
	}
	for _, rr := range m.Answer {
		if c, ok := rr.(*dns.CNAME); ok && strings.EqualFold(c.Hdr.Name, owner) {
			return c
		}
	}
	return nil
}

// recordsOf includes the DNAME record and signatures.
func recordsOf(m *dns.Msg, owner string) (all []dns.RR) {
	for _, rr := range m.Answer {
		switch h := rr.Header(); h.Rrtype {
		case dns.TypeCNAME, dns.TypeRRSIG:
			if strings.EqualFold(h.Name, owner) {
				all = append(all, rr)
			}
		case dns.TypeDNAME:
			if dns.IsSubDomain(h.Name, owner) {
				all = append(all, rr)
			}
		}
	}
	return all
}

func addressesOf(m *dns.Msg, qtype uint16) (all []netip.Addr) {
	if !rules.MayHaveAddresses(qtype) {
		return nil
	}
	add := func(ips ...net.IP) {
		for _, ip := range ips {
			if a, ok := netip.AddrFromSlice(ip); ok {
				all = append(all, a.Unmap())
			}
		}
	}
	for _, rr := range m.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			add(rr.A)
		case *dns.AAAA:
			if a, ok := netip.AddrFromSlice(rr.AAAA.To16()); ok {
				all = append(all, a)
			}
		case *dns.HTTPS:
			add(hintsOf(&rr.SVCB)...)
		case *dns.SVCB:
			add(hintsOf(rr)...)
		}
	}
	return all
}

// hintsOf returns address hints (RFC 9460, section 7.3), to which clients connect first.
func hintsOf(rr *dns.SVCB) (all []net.IP) {
	for _, v := range rr.Value {
		switch v := v.(type) {
		case *dns.SVCBIPv4Hint:
			all = append(all, v.Hint...)
		case *dns.SVCBIPv6Hint:
			all = append(all, v.Hint...)
		}
	}
	return all
}

// isSigned is about the owner's records. last is set at the end of the chain, which may be a denial.
func isSigned(m *dns.Msg, owner string, last bool) bool {
	has := false
	for _, rr := range m.Answer {
		h := rr.Header()
		if !strings.EqualFold(h.Name, owner) {
			continue
		}
		if h.Rrtype == dns.TypeRRSIG {
			return true
		}
		has = true
	}
	if has || !last {
		return false
	}
	for _, rr := range m.Ns {
		switch rr.Header().Rrtype {
		case dns.TypeRRSIG, dns.TypeNSEC, dns.TypeNSEC3:
			return true
		}
	}
	return false
}

// outcome says what the client gets.
type outcome struct {
	// replaces: not the answer of the plugins below.
	replaces bool
	// answer is nil if rpz drops the query.
	answer *dns.Msg
}

// act applies the rule. c is nil before there is an answer.
func (q *query) act(f *hit, c *chain) outcome {
	q.logOnly(f.logged, f.step)
	var m *dns.Msg
	action := f.action
	if action == rules.Local {
		passthru := false
		if m, passthru = q.local(f, c); passthru {
			action = rules.Passthru // obsolete form
		}
	}
	q.record(f, action.String())
	switch action {
	case rules.Passthru:
		return outcome{}
	case rules.Drop:
		return outcome{replaces: true}
	case rules.TCPOnly:
		if q.state.Proto() == "tcp" {
			return outcome{}
		}
		m = q.reply(nil) // no records, as BIND
		m.Truncated = true
		if c != nil {
			m.Rcode, m.RecursionAvailable = c.msg.Rcode, c.msg.RecursionAvailable
		}
		q.answers(f)
		return outcome{true, m}
	case rules.NXDomain:
		m = q.reply(c)
		m.Rcode = dns.RcodeNameError
	case rules.NoData:
		m = q.reply(c)
	}
	q.answers(f)
	if m.Rcode != dns.RcodeServerFailure { // as BIND
		m.Extra = append(m.Extra, dns.Copy(f.rules.SOA))
	}
	if q.handler.ede != 0 {
		authority.AddError(m, q.state.Req, q.handler.ede, "")
	}
	return outcome{true, m}
}

func (q *query) reply(c *chain) *dns.Msg {
	m := new(dns.Msg).SetReply(q.state.Req)
	m.RecursionAvailable = !q.punted // else the server sets it if it offers recursion
	if c != nil {
		m.Answer = append(m.Answer, c.before...)
		m.RecursionAvailable = c.msg.RecursionAvailable
	}
	return m
}

// local returns an answer of local data. passthru is set for a CNAME record to the rule's own name.
func (q *query) local(f *hit, c *chain) (m *dns.Msg, passthru bool) {
	qtype := q.state.QType()
	m = q.reply(c)
	all := f.rules.Records(f.policy, f.step, q.handler.maxTTL)
	if len(all) == 0 {
		return m, false
	}
	cname, ok := all[0].(*dns.CNAME)
	if !ok {
		for _, rr := range all {
			if qtype == dns.TypeANY || rr.Header().Rrtype == qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
		return m, false // without a record of the type it is NODATA
	}
	target, expanded := rules.Target(cname, f.step)
	switch {
	case target == "":
		m.Rcode = dns.RcodeYXDomain
		return m, false
	case strings.EqualFold(target, f.step):
		return nil, true
	}
	cname.Target = target
	m.Answer = append(m.Answer, cname)
	if !expanded && (qtype == dns.TypeCNAME || qtype == dns.TypeANY) {
		return m, false
	}
	q.follow(m, target)
	return m, false
}

func (q *query) follow(m *dns.Msg, target string) {
	ctx := context.WithValue(q.ctx, targetKey{}, true)
	t, err := q.handler.lookup(ctx, q.state, target, q.state.QType())
	if err != nil || t == nil || t.Rcode != dns.RcodeSuccess && t.Rcode != dns.RcodeNameError {
		m.Answer, m.Rcode = nil, dns.RcodeServerFailure
		return
	}
	m.Rcode, m.Truncated = t.Rcode, t.Truncated
	for _, rr := range unsigned(t.Answer) {
		// The target may lead back to where the chain began.
		if !slices.ContainsFunc(m.Answer, func(has dns.RR) bool { return dns.IsDuplicate(has, rr) }) {
			m.Answer = append(m.Answer, rr)
		}
	}
	m.Ns = unsigned(t.Ns)
	m.RecursionAvailable = m.RecursionAvailable || t.RecursionAvailable
}

// unsigned removes signatures and proofs: the changed answer can't be verified.
func unsigned(all []dns.RR) (rest []dns.RR) {
	for _, rr := range all {
		switch rr.Header().Rrtype {
		case dns.TypeRRSIG, dns.TypeNSEC, dns.TypeNSEC3:
		default:
			rest = append(rest, rr)
		}
	}
	return rest
}

func (q *query) write(o *outcome) error {
	if o.answer == nil {
		return nil
	}
	return origin.ReplaceAnswer(q.state.W, o.answer)
}
