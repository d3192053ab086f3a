// SPDX-License-Identifier: Apache-2.0

// Package share is the rule by which networks share a resource: queries in flight,
// connections, memory. It says how much each network, and each owner in it, may use.
//
// An owner has a limit of its own. A network has a dynamic threshold, as switches have for
// their buffers: it may use no more than it leaves free. One network gets half at most, two
// of them a third each, and the next one always finds room. So a tenant that uses its share,
// by however many guests, leaves room for the others.
//
// The package does not count, and has no lock: package punt counts queries (admission.go),
// package tcp connections and bytes.
package share

// Usage is how much is used: in all, by one network, and by one owner in it. The unit is the
// caller's.
type Usage struct{ All, Network, Owner int }

// Capacity is how much there is in all, and how much of that one owner may use, in the unit of Usage.
type Capacity struct{ All, Owner int }

// Bound says whose limit is exceeded.
type Bound uint8

// The bounds, in the order in which they are checked.
const (
	None Bound = iota
	OfOwner
	OfNetwork
)

// Exceeded returns the bound that n more, from 1, would exceed.
func (c Capacity) Exceeded(u Usage, n int) Bound {
	switch {
	case u.Owner+n > c.Owner:
		return OfOwner
	case u.Network+n > c.All-u.All:
		return OfNetwork
	}
	return None
}

// Crowded reports whether the owner or the network uses three quarters or more of its limit.
func (c Capacity) Crowded(u Usage) bool {
	return 4*u.Owner >= 3*c.Owner || 4*u.Network >= 3*(c.All-u.All)
}
