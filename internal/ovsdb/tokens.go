// SPDX-License-Identifier: Apache-2.0

package ovsdb

import "time"

// The rate of changes of conditions. Each has the server look at every row of a table, so those of
// many guests that come at once are sent together: the first ones at once, as a guest takes some
// one after the other until its network is read.
const (
	changeBurst    = 8
	changeInterval = 100 * time.Millisecond
)

// tokens is a token bucket of changeBurst, which gets one back every changeInterval. The zero tokens
// is full.
type tokens struct {
	// full is when it will be full again.
	full time.Time
}

// next returns when a token is to be had, which is not after now if there is one.
func (t *tokens) next(now time.Time) time.Time {
	if t.full.Before(now) {
		return now
	}
	return t.full.Add(-(changeBurst - 1) * changeInterval)
}

// take takes a token.
func (t *tokens) take(now time.Time) {
	if t.full.Before(now) {
		t.full = now
	}
	t.full = t.full.Add(changeInterval)
}
