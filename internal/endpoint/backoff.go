// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff doubles delays from Min to Max, less up to a half at random, so that the clients of a restarted
// server do not return together. It is not safe for concurrent use.
type Backoff struct {
	Min, Max time.Duration
	next     time.Duration // 0 for Min
}

// Next returns the delay before the next retry, and doubles the one after it.
func (b *Backoff) Next() time.Duration {
	d := min(max(b.next, b.Min), b.Max)
	b.next = min(2*d, b.Max)
	if d <= 0 {
		return 0
	}
	return d - rand.N(d/2+1)
}

// Reset makes the next delay Min, after a success.
func (b *Backoff) Reset() { b.next = 0 }

// Wait sleeps for the next delay, or returns the error of ctx.
func (b *Backoff) Wait(ctx context.Context) error { return Sleep(ctx, b.Next()) }

// Sleep sleeps for d, or returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
