// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"testing"
	"time"
)

func TestTokens(t *testing.T) {
	now := time.Unix(1000, 0)
	var bucket tokens
	for i := range changeBurst {
		if next := bucket.next(now); next.After(now) {
			t.Fatalf("token %d is to be had after %s", i, next.Sub(now))
		}
		bucket.take(now)
	}
	for i := range 20 {
		next := bucket.next(now)
		if wait := next.Sub(now); wait != changeInterval {
			t.Fatalf("token %d after the burst: %s", i, wait)
		}
		now = next
		bucket.take(now)
	}
	now = now.Add(time.Minute)
	for range changeBurst {
		if bucket.next(now).After(now) {
			t.Fatal("it is not full after a minute")
		}
		bucket.take(now)
	}
	if !bucket.next(now).After(now) {
		t.Error("it has more than a burst after a minute")
	}
}
