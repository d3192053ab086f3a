// SPDX-License-Identifier: Apache-2.0

package ovsdb

import "time"

// The rate of changes of conditions. For each change the server examines all rows of a table, so the changes
// for many new guests are merged. The first ones are sent at once: a new guest needs several changes, one
// after the other, until its network is read.
const (
	changeBurst    = 8
	changeInterval = 100 * time.Millisecond
)

// tokens is a bucket of changeBurst tokens, refilled by one every changeInterval. The zero value is full.
type tokens struct {
	// full is when the bucket will be full again.
	full time.Time
}

// next returns when there is a token: not after now if there is one already.
func (t *tokens) next(now time.Time) time.Time {
	if t.full.Before(now) {
		return now
	}
	return t.full.Add(-(changeBurst - 1) * changeInterval)
}

// take removes a token.
func (t *tokens) take(now time.Time) {
	if t.full.Before(now) {
		t.full = now
	}
	t.full = t.full.Add(changeInterval)
}
