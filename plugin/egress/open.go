// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/address"
	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/policy"
)

// With grace, maxTTL fits an OpenFlow idle timeout, 16 bits of seconds.
const maxTTL = 12 * time.Hour

// opener writes the answer to an allowed name once the switch lets the guest send to the addresses. With observe on it
// only records.
type opener struct{ *query }

func (w opener) WriteMsg(m *dns.Msg) error {
	q := w.query
	if origin.JudgeAnswer(q.Context, q.request, m) { // the guest does not get m
		return q.ResponseWriter.WriteMsg(m)
	}
	x, open := explain.Of(q.Context), &q.opening
	closed, stands := q.opens(m)
	if closed.IsValid() {
		q.recordClosed(closed)
		if x != nil && len(open.To) == 0 && !q.handler.observe {
			q.explainClosed(x, closed)
		}
	}
	if x != nil && len(open.To) > 0 && !q.handler.observe {
		x.Notef("the answer would open %s", joined(open.To))
	}
	switch {
	case stands:
		q.recordOpened(open.To)
		return q.ResponseWriter.WriteMsg(m)
	case len(open.To) == 0 || !q.enforces():
		return q.ResponseWriter.WriteMsg(m)
	}
	if err := q.origin.Opener.Open(q.Context, open); err != nil {
		q.recordFailed(err)
		failure := new(dns.Msg).SetRcode(q.request, dns.RcodeServerFailure)
		code, text := dns.ExtendedErrorCodeNotReady, ""
		if errors.Is(err, opening.ErrFull) { // the log has the operator's numbers
			code, text = dns.ExtendedErrorCodeProhibited, opening.ErrFull.Error()
		}
		authority.AddError(failure, q.request, code, text)
		m = failure
	} else {
		q.recordOpened(open.To)
	}
	return q.ResponseWriter.WriteMsg(m)
}

// unopened explains that an answer to a name that no policy allows opens no address, unless a policy has its addresses.
type unopened struct{ *query }

func (w unopened) WriteMsg(m *dns.Msg) error {
	reaches, some := false, false
	q := w.query
	for _, a := range addressesIn(m, q.request.Question[0]) {
		some, reaches = true, reaches || q.hasEntry(a)
	}
	if some && !reaches && !origin.JudgeAnswer(q.Context, q.request, m) {
		q.explainNotAllowed(explain.Of(q.Context))
	}
	return q.ResponseWriter.WriteMsg(m)
}

func (h *Handler) closes(a netip.Addr) bool {
	to := address.Destination(a)
	return address.IsSpecial(to) || address.IsIn(h.closed, a) || to != a && address.IsIn(h.closed, to) || h.onNode(to)
}

func (q *query) closes(a netip.Addr) bool {
	return q.handler.closes(a) || q.origin.Opener != nil && q.origin.Opener.IsNode(address.Destination(a))
}

// enforces reports whether the switch is to open addresses for the query. An explained query opens none.
func (q *query) enforces() bool {
	return !q.handler.observe && q.origin.Opener != nil && explain.Of(q.Context) == nil
}

// opens sets q.opening, and returns what collect does. stands: the switch has all of q.opening open. Open has judged these
// addresses, so they are not judged again.
func (q *query) opens(m *dns.Msg) (closed netip.Addr, stands bool) {
	if q.enforces() {
		closed = q.collect(m, func(netip.Addr) bool { return false })
		if len(q.opening.To) > 0 && q.origin.Opener.Stands(&q.opening) {
			return closed, true
		}
	}
	return q.collect(m, q.closes), false
}

// collect sets q.opening to the addresses that the answer may open, without those that closes has. It returns the first
// address that stays closed and that no entry has, invalid for none: one that closes has, or another name's.
func (q *query) collect(m *dns.Msg, closes func(netip.Addr) bool) (closed netip.Addr) {
	q.opening = opening.Answer{Name: q.name, Lasts: q.handler.floor}
	if m.Rcode != dns.RcodeSuccess {
		return closed // clients do not look at the records
	}
	open := &q.opening
	open.To = q.room.to[:0]
	var some [maxChain + 1]string
	chain := appendChain(some[:0], m, q.name)
	for rr, a := range addressesIn(m, q.request.Question[0]) {
		if q.foreign || closes(a) || !onChain(chain, rr.Header().Name) {
			if !closed.IsValid() && !q.hasEntry(a) {
				closed = a
			}
			continue
		}
		open.Lasts = max(open.Lasts, min(time.Duration(rr.Header().Ttl)*time.Second, maxTTL))
		open.To = policy.AppendDestinations(open.To, q.entries, a)
	}
	// Entries may overlap, and a server that the guest chooses may repeat thousands of addresses.
	slices.SortFunc(open.To, opening.Destination.Compare)
	open.To = slices.Compact(open.To)
	return closed
}

func (q *query) hasEntry(a netip.Addr) bool {
	for _, rules := range q.handler.each(q.policies()) {
		if rules.Address(a) != nil {
			return true
		}
	}
	return false
}

// set combines Corefile policies. It implements opening.Policy.
type set struct {
	handler  *Handler
	numbers  []int // sorted indexes in Handler.policies
	networks []opening.Network
	sum      uint64
}

func (s *set) Allows(name string, to opening.Destination) bool {
	return s.handler.allows(policies{numbers: s.numbers}, name, to)
}

func (h *Handler) allows(of policies, name string, to opening.Destination) bool {
	if !h.judges(name) || h.closes(to.Address) {
		return false
	}
	var some [2]*policy.Entry
	d := h.decide(of, name, some[:0])
	return slices.Contains(policy.AppendDestinations(nil, d.entries, to.Address), to)
}

func (s *set) Networks() []opening.Network { return s.networks }

// northboundPolicy implements opening.Policy. Two are == until the text in Northbound changes.
type northboundPolicy struct {
	handler *Handler
	rules   *policy.Policy
}

func (p northboundPolicy) Allows(name string, to opening.Destination) bool {
	return p.handler.allows(policies{northbound: []*policy.Policy{p.rules}}, name, to)
}

func (p northboundPolicy) Networks() []opening.Network {
	return opening.AddNetworks(nil, p.rules.Networks())
}

func (s *set) Sum() uint64 { return s.sum }

func (p northboundPolicy) Sum() uint64 { return p.handler.sumOf(p.rules.Entries()) }

// sumOf hashes entries, in any order, and the properties that policies depend on.
func (h *Handler) sumOf(entries []policy.Entry) uint64 {
	var all []string
	for _, e := range entries {
		all = append(all, e.String())
	}
	slices.Sort(all)
	sum := fnv.New64a()
	fmt.Fprint(sum, h.Zones, h.closed, slices.Compact(all))
	return sum.Sum64()
}

// PolicyOf returns what the policies of a guest allow, nil without a policy.
func (h *Handler) PolicyOf(o *origin.Origin) opening.Policy {
	all := h.setOf(o)
	for _, rules := range h.northboundOf(o) {
		all = opening.Union(all, northboundPolicy{h, rules})
	}
	return all
}

func (h *Handler) setOf(o *origin.Origin) opening.Policy {
	var some [8]int // more are rare
	numbers := h.numbers(some[:0], o)
	if len(numbers) == 0 {
		return nil
	}
	key := string(appendKey(nil, numbers))
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sets[key]
	if s == nil {
		s = &set{handler: h, numbers: slices.Clone(numbers)}
		var entries []policy.Entry
		for _, i := range numbers {
			s.networks = opening.AddNetworks(s.networks, h.policies[i].rules.Networks())
			entries = append(entries, h.policies[i].rules.Entries()...)
		}
		s.sum = h.sumOf(entries)
		h.sets[key] = s
	}
	return s
}

func appendKey(b []byte, numbers []int) []byte {
	for _, n := range numbers {
		b = append(b, byte(n>>16), byte(n>>8), byte(n))
	}
	return b
}
