// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"context"
	"time"
)

// Outcome is the outcome of a punted query.
type Outcome struct {
	// Result and Reason are labels of coredns_ofpunt_packet_ins_total, such as "answered" and "deadline".
	Result, Reason string
	// Rcode is the rcode of an answer that no plugin has written, else 0.
	Rcode int
	// At is when Rcode was sent, else zero.
	At time.Time
}

// Exchange is a punted query with its answer. The methods are safe for concurrent use.
type Exchange interface {
	// Arrived returns when the query came.
	Arrived() time.Time
	// Outcome returns the outcome. It reports false until the answer is about to be sent.
	Outcome() (Outcome, bool)
}

// ExchangeKey is the context key of an Exchange.
type ExchangeKey struct{}

// ExchangeFromContext returns the exchange of ctx, and reports whether ctx has one: queries from sockets, and lookups by
// plugins, have none.
func ExchangeFromContext(ctx context.Context) (x Exchange, ok bool) {
	x, ok = ctx.Value(ExchangeKey{}).(Exchange)
	return x, ok
}
