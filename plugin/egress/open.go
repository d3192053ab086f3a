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
	var some [2]opening.Destination // more are rare
	to, lasts, closed, stands := q.opens(some[:0], m)
	x := explain.Of(q.Context)
	if closed.IsValid() {
		q.recordClosed(closed)
		if x != nil && len(to) == 0 && !q.handler.observe {
			q.explainClosed(x, closed)
		}
	}
	switch {
	case stands:
		q.recordOpened(to)
		return q.ResponseWriter.WriteMsg(m)
	case len(to) == 0 || !q.enforces():
		return q.ResponseWriter.WriteMsg(m)
	}
	// Open keeps its argument: without the clone some would be on the heap.
	a := &opening.Answer{Name: q.name, To: slices.Clone(to), Lasts: lasts}
	if err := q.origin.Opener.Open(q.Context, a); err != nil {
		q.recordFailed(err)
		failure := new(dns.Msg).SetRcode(q.request, dns.RcodeServerFailure)
		code, text := dns.ExtendedErrorCodeNotReady, ""
		if errors.Is(err, opening.ErrFull) { // the log has the operator's numbers
			code, text = dns.ExtendedErrorCodeProhibited, opening.ErrFull.Error()
		}
		authority.AddError(failure, q.request, code, text)
		m = failure
	} else {
		q.recordOpened(to)
	}
	return q.ResponseWriter.WriteMsg(m)
}

// unopened explains that an answer to a name that no policy allows opens no address, unless a policy has its addresses.
type unopened struct{ *query }

func (w unopened) WriteMsg(m *dns.Msg) error {
	reaches, some := false, false
	q := w.query
	of := q.policies()
	for _, a := range addressesIn(m, q.request.Question[0]) {
		some, reaches = true, reaches || haveEntry(of, a)
	}
	if some && !reaches && !origin.JudgeAnswer(q.Context, q.request, m) {
		q.explainNotAllowed(explain.Of(q.Context))
	}
	return q.ResponseWriter.WriteMsg(m)
}

// closedBecause returns why no name opens an address, "" if names may.
func (h *Handler) closedBecause(a netip.Addr) string {
	switch to := address.Destination(a); {
	case address.IsSpecial(to):
		return "it is private or for a special purpose"
	case address.IsIn(h.closed, a), to != a && address.IsIn(h.closed, to):
		return "the property closed has it"
	case h.onNode(to):
		return ofNode
	}
	return ""
}

const ofNode = "it is an address of the node"

func (q *query) closedBecause(a netip.Addr) string {
	why := q.handler.closedBecause(a)
	if why == "" && q.origin.Opener != nil && q.origin.Opener.IsNode(address.Destination(a)) {
		why = ofNode
	}
	return why
}

func (q *query) closes(a netip.Addr) bool { return q.closedBecause(a) != "" }

// enforces reports whether the switch opens addresses for the guest.
func (q *query) enforces() bool { return !q.handler.observe && q.origin.Opener != nil }

// opens returns what collect does. stands: the switch has all destinations open. They were judged before they opened, so they
// are not judged again.
func (q *query) opens(buffer []opening.Destination, m *dns.Msg) (to []opening.Destination, lasts time.Duration, closed netip.Addr, stands bool) {
	if q.enforces() {
		to, lasts, closed = q.collect(buffer, m, func(netip.Addr) bool { return false })
		if q.allStand(to, lasts) {
			return to, lasts, closed, true
		}
	}
	to, lasts, closed = q.collect(buffer, m, q.closes)
	return to, lasts, closed, false
}

func (q *query) allStand(all []opening.Destination, lasts time.Duration) bool {
	return !slices.ContainsFunc(all, func(to opening.Destination) bool {
		return !q.origin.Opener.Stands(q.name, to, lasts)
	})
}

// collect appends the destinations that the answer may open to buffer. It skips addresses that closes reports, and records of
// other names. lasts is how long they are open at least. closed is the first skipped address that no entry has, invalid for
// none. The results are not one struct: closed would move buffer to the heap.
func (q *query) collect(buffer []opening.Destination, m *dns.Msg, closes func(netip.Addr) bool) (to []opening.Destination, lasts time.Duration, closed netip.Addr) {
	to, lasts = buffer, q.handler.floor
	if m.Rcode != dns.RcodeSuccess {
		return to, lasts, closed // clients do not look at the records
	}
	var of []applied // found for the first skipped address, since few answers have one
	var some [maxChain + 1]string
	chain := appendChain(some[:0], m, q.name)
	for rr, a := range addressesIn(m, q.request.Question[0]) {
		if !q.foreign && !closes(a) && onChain(chain, rr.Header().Name) {
			lasts = max(lasts, min(time.Duration(rr.Header().Ttl)*time.Second, maxTTL))
			to = policy.AppendDestinations(to, q.entries, a)
			continue
		}
		if of == nil {
			of = q.policies()
		}
		if !closed.IsValid() && !haveEntry(of, a) {
			closed = a
		}
	}
	// Entries may overlap, and a server that the guest chooses may repeat thousands of addresses.
	slices.SortFunc(to, opening.Destination.Compare)
	return slices.Compact(to), lasts, closed
}

func haveEntry(of []applied, a netip.Addr) bool {
	return slices.ContainsFunc(of, func(p applied) bool { return p.rules.Address(a) != nil })
}

// set combines Corefile policies. It implements opening.Policy.
type set struct {
	handler  *Handler
	policies []applied
	networks []opening.Network
	sum      uint64
}

func (s *set) Allows(name string, to opening.Destination) bool {
	return s.handler.allows(s.policies, name, to)
}

func (h *Handler) allows(of []applied, name string, to opening.Destination) bool {
	if !h.judges(name) || h.closedBecause(to.Address) != "" {
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
	return p.handler.allows([]applied{{p.handler.northbound, p.rules}}, name, to)
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
		s = &set{handler: h, policies: h.appendNumbered(nil, numbers)}
		var entries []policy.Entry
		for _, p := range s.policies {
			s.networks = opening.AddNetworks(s.networks, p.rules.Networks())
			entries = append(entries, p.rules.Entries()...)
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
