// SPDX-License-Identifier: Apache-2.0

package punt

// InFlightOfGuest returns how many queries of the guest are in flight, this one among them.
func (x *Exchange) InFlightOfGuest() int64 {
	if x.ofGuest == nil {
		return 0
	}
	return x.ofGuest.n.Load()
}

// Repeats returns how many other queries in the chains ask the same question, of whatever
// guest.
func (x *Exchange) Repeats() int {
	return x.server.admission.repeats(x, func(*Exchange) bool { return true })
}

// RepeatsOfGuest is Repeats of the same guest.
func (x *Exchange) RepeatsOfGuest() int {
	return x.server.admission.repeats(x, func(o *Exchange) bool { return o.from.guest == x.from.guest })
}

// repeats counts the other queries in the chains that ask the question of x and match.
func (a *admission) repeats(x *Exchange, match func(*Exchange) bool) (n int) {
	for i := range a.slots {
		o := a.slots[i].Load()
		if o == nil || o == x || !o.ready.Load() || o.done.Load() || !match(o) {
			continue
		}
		if sameQuestion(o.payload, x.payload) {
			n++
		}
	}
	return n
}

// sameQuestion reports whether two messages have one plain question, the same but for
// the case of letters (RFC 1035, section 2.3.3).
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
