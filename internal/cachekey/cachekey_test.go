// SPDX-License-Identifier: Apache-2.0

package cachekey_test

import (
	"context"
	"testing"

	"github.com/puntdns/puntdns/internal/cachekey"
)

func TestOf(t *testing.T) {
	with := func(parts ...string) context.Context {
		ctx := context.Background()
		for _, p := range parts {
			ctx = cachekey.With(ctx, p)
		}
		return ctx
	}
	all := [][]string{{}, {""}, {"", ""}, {"a"}, {"b"}, {"ab"}, {"a", "b"}, {"b", "a"}, {"1:a"}, {"1:a1:b"}, {"a", "b", ""}, {"", "a", "b"}}
	for i, a := range all {
		if got, again := cachekey.Of(with(a...)), cachekey.Of(with(a...)); got != again {
			t.Errorf("%q: %q and %q", a, got, again)
		}
		for _, b := range all[i+1:] {
			if cachekey.Of(with(a...)) == cachekey.Of(with(b...)) {
				t.Errorf("%q and %q are the same", a, b)
			}
		}
	}
	if got := cachekey.Of(context.Background()); got != "" {
		t.Errorf("nothing added: %q", got)
	}
}
