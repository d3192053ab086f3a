// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"context"
	"time"
)

// Outcome is what has become of a query that a punt brought.
type Outcome struct {
	// Result and Reason are the values of these labels in coredns_ofpunt_packet_ins_total,
	// such as "answered" and "deadline".
	Result, Reason string
	// Rcode is the rcode of an answer that no plugin has written, else 0.
	Rcode int
	// At is when Rcode was sent, zero where that is not set.
	At time.Time
}

// Exchange is a query that a punt brought, and its one answer. The methods are safe for
// concurrent use.
type Exchange interface {
	// Arrived returns when the query came.
	Arrived() time.Time
	// Outcome returns what has become of the query, and reports whether that is known: not before
	// the answer is about to be sent.
	Outcome() (Outcome, bool)
}

// ExchangeKey is the context key of an Exchange.
type ExchangeKey struct{}

// ExchangeFromContext returns the exchange of a chain, and reports whether there is one: a query from a
// socket and a lookup that a plugin makes have none.
func ExchangeFromContext(ctx context.Context) (x Exchange, ok bool) {
	x, ok = ctx.Value(ExchangeKey{}).(Exchange)
	return x, ok
}
