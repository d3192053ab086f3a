// SPDX-License-Identifier: Apache-2.0

package punt

// A server of *forward* may be a guest of the bridge. Forwarding the server's own queries to the server is a loop.

// MaxRepeats is how many other queries with a question a guest may have in flight before the next one counts as a
// loop. It bounds loops by servers with addresses unknown to OVN, such as behind NAT.
const MaxRepeats = 8

// IsRepeated reports whether the guest has MaxRepeats other queries with the question in flight.
func (x *Exchange) IsRepeated() bool {
	// Counting scans all queries in flight.
	if x.ofGuest != nil && x.ofGuest.n.Load() <= MaxRepeats {
		return false
	}
	return x.repeatsOfGuest() >= MaxRepeats
}

// IsPassedOn reports whether the guest, a server of *forward*, passes on a question that it was asked.
func (x *Exchange) IsPassedOn() bool { return isPassedOn(x.repeatsOfGuest(), x.repeats()) }

// own and all count other queries with the question in flight.
func isPassedOn(own, all int) bool { return all > own || own >= MaxRepeats }

func (x *Exchange) repeats() int {
	return x.server.admission.repeats(x, func(*Exchange) bool { return true })
}

func (x *Exchange) repeatsOfGuest() int {
	return x.server.admission.repeats(x, func(o *Exchange) bool { return o.from.account == x.from.account })
}

// SetLooped records that the chain would ask the guest its own question. A resume or SERVFAIL counts as a loop,
// which a TestQuery reports.
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

// repeats counts other queries in the chains with the question of x that match.
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

// sameQuestion ignores case (RFC 1035, section 2.3.3).
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

// Label lengths, at most 63, are below the letters.
func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
