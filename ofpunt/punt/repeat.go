// SPDX-License-Identifier: Apache-2.0

package punt

// A server that a chain forwards to may be a guest of the bridge, whose queries come here. What such a server
// asks in order to answer the chain must not be forwarded to the server: that would be a loop.

// MaxRepeats is how many other queries with the same question a guest may have in flight, before
// the next one counts as a loop. It is for servers with an address that OVN does not show as the
// guest's, such as one behind NAT, and bounds a loop that a guest begins itself.
const MaxRepeats = 8

// IsRepeated reports whether the guest has so many other queries with the question in flight that this one
// counts as a loop, whatever server is asked.
func (x *Exchange) IsRepeated() bool {
	// To count the repeats takes a look at all queries in flight.
	if x.ofGuest != nil && x.ofGuest.n.Load() <= MaxRepeats {
		return false
	}
	return x.repeatsOfGuest() >= MaxRepeats
}

// IsPassedOn reports whether the guest, which is one that the chain forwards to, passes on a question
// that it was asked. It may ask for itself too, and twice.
func (x *Exchange) IsPassedOn() bool { return isPassedOn(x.repeatsOfGuest(), x.repeats()) }

// isPassedOn is IsPassedOn by the number of other queries in flight with that question: of the guest
// itself, and of all guests.
func isPassedOn(own, all int) bool { return all > own || own >= MaxRepeats }

// repeats returns how many other queries in the chains ask the same question, of whatever
// guest.
func (x *Exchange) repeats() int {
	return x.server.admission.repeats(x, func(*Exchange) bool { return true })
}

// repeatsOfGuest is repeats of the same guest.
func (x *Exchange) repeatsOfGuest() int {
	return x.server.admission.repeats(x, func(o *Exchange) bool { return o.from.account == x.from.account })
}

// SetLooped records that the chain would ask the guest what the guest has asked. A resume or SERVFAIL then
// counts as a loop. An operator who explains the same question gets the loop as a finding.
func (x *Exchange) SetLooped() {
	x.looped.Store(true)
	e := x.server.admission.explained.Load()
	if e == nil || e == x || !e.ready.Load() || !sameQuestion(e.payload, x.payload) {
		return
	}
	if t, ok := e.transport.(*answerKeeper); ok && t.question.Looped != nil {
		t.question.Looped(&x.from.origin)
	}
}

// repeats counts the other queries in the chains that ask the question of x and match. The one that
// an operator asks is among them.
func (a *admission) repeats(x *Exchange, match func(*Exchange) bool) (n int) {
	count := func(o *Exchange) {
		if o != nil && o != x && o.ready.Load() && !o.done.Load() && match(o) && sameQuestion(o.payload, x.payload) {
			n++
		}
	}
	for i := range a.slots {
		count(a.slots[i].Load())
	}
	count(a.explained.Load())
	return n
}

// sameQuestion reports whether two messages have one plain question, the same apart from the case of letters
// (RFC 1035, section 2.3.3).
func sameQuestion(a, b []byte) bool {
	n := questionLen(a)
	if n == 0 || n != questionLen(b) {
		return false
	}
	a, b = a[headerLen:headerLen+n], b[headerLen:headerLen+n]
	for i := range n - questionTail {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return string(a[n-questionTail:]) == string(b[n-questionTail:])
}

// lower maps the letters of ASCII. The length of a label is never one of them.
func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
