// SPDX-License-Identifier: Apache-2.0

package ovsdb

import "time"

// For each change of conditions the server examines all rows of a table, so changes are merged. The first
// ones are sent at once: a new guest needs several, one after the other.
const (
	changeBurst    = 8
	changeInterval = 100 * time.Millisecond
)

// tokens is a bucket of changeBurst tokens, refilled by one every changeInterval. The zero value is full.
type tokens struct {
	full time.Time
}

// next is not after now if there is a token.
func (t *tokens) next(now time.Time) time.Time {
	if t.full.Before(now) {
		return now
	}
	return t.full.Add(-(changeBurst - 1) * changeInterval)
}

func (t *tokens) take(now time.Time) {
	if t.full.Before(now) {
		t.full = now
	}
	t.full = t.full.Add(changeInterval)
}
