// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"testing"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// A lookup has the guest of its query, and nothing else of it.
func TestLookupContext(t *testing.T) {
	o := &origin.Origin{Port: "vm1"}
	ctx := origin.NewContext(t.Context(), o)
	for _, key := range []any{punt.Key{}, origin.ExchangeKey{}, opening.CallerKey{}} {
		ctx = context.WithValue(ctx, key, new(punt.Exchange))
	}
	lookup := newLookupContext(ctx, o)
	for _, key := range []any{punt.Key{}, origin.ExchangeKey{}, opening.CallerKey{}} {
		if got := lookup.Value(key); got != nil {
			t.Errorf("%T: %v", key, got)
		}
	}
	if of, _ := origin.FromContext(lookup); of == nil || of.Port != "vm1" || !of.Lookup {
		t.Errorf("%+v", of)
	}
}
