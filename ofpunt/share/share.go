// SPDX-License-Identifier: Apache-2.0

// Package share says how much each network and each of its owners may have of what all of
// them share: queries in flight, connections, memory.
//
// An owner has a limit of its own. A network has a dynamic threshold, as switches have for
// their buffers: it may have no more than it leaves free. One network gets half at most, two
// of them a third each, and whoever comes next finds room. So a tenant that takes its part,
// by however many guests, leaves room for the others.
//
// The package has the rule alone. Who counts, and under which lock, is left to its users.
package share

// Use is how much is taken, in all, by a network and by an owner there.
type Use struct{ All, Network, Owner int }

// Limit is how much there is in all, and how much of that an owner may have.
type Limit struct{ All, Owner int }

// Bound is what stands against taking more.
type Bound uint8

// Bounds, in the order in which they are looked at.
const (
	None Bound = iota
	OfOwner
	OfNetwork
)

// Exceeded returns the bound that is exceeded with n more, from 1.
func (l Limit) Exceeded(u Use, n int) Bound {
	switch {
	case u.Owner+n > l.Owner:
		return OfOwner
	case u.Network+n > l.All-u.All:
		return OfNetwork
	}
	return None
}

// Crowded reports whether three quarters of what the owner or the network may have are
// taken, or more.
func (l Limit) Crowded(u Use) bool {
	return 4*u.Owner >= 3*l.Owner || 4*u.Network >= 3*(l.All-u.All)
}
