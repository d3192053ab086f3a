// SPDX-License-Identifier: Apache-2.0

// Package share decides how networks, and owners in them, share queries in flight, connections or memory.
//
// An owner has a fixed limit. A network may use as much as it leaves free, as in switch buffers: one network gets at
// most half, two a third each, and another always finds room.
//
// Callers count and lock: package punt (admission.go) and package tcp.
package share

// Usage is how much is used in all, by one network, and by one owner in it, in the caller's unit.
type Usage struct{ All, Network, Owner int }

// Capacity is how much all, and one owner, may use.
type Capacity struct{ All, Owner int }

// Bound says whose limit is exceeded.
type Bound uint8

// The bounds, in the order of the checks.
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

// Crowded reports whether the owner or the network uses three quarters of its limit.
func (c Capacity) Crowded(u Usage) bool {
	return 4*u.Owner >= 3*c.Owner || 4*u.Network >= 3*(c.All-u.All)
}
