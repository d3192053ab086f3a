// SPDX-License-Identifier: Apache-2.0

package cachekey_test

import (
	"context"
	"testing"

	"github.com/miekg/dns"

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

func TestRoute(t *testing.T) {
	name := func(ctx context.Context) string {
		if h := cachekey.HandlerOf(ctx); h != nil {
			return h.Name()
		}
		return ""
	}
	ctx := t.Context()
	if name(ctx) != "" || name(cachekey.With(ctx, "a")) != "" {
		t.Error("a handler where nobody has given one")
	}
	routed := cachekey.With(cachekey.Route(cachekey.With(ctx, "a"), "b", handler("h")), "c")
	if got, want := cachekey.Of(routed), cachekey.Of(cachekey.With(cachekey.With(cachekey.With(ctx, "a"), "b"), "c")); name(routed) != "h" || got != want {
		t.Errorf("%s, key %q, want h, %q", name(routed), got, want)
	}
	if again := cachekey.Route(routed, "d", handler("i")); name(again) != "i" || cachekey.Of(again) == cachekey.Of(routed) {
		t.Errorf("routed once more: %s, key %q", name(again), cachekey.Of(again))
	}
}

// handler is a plugin.Handler by its name.
type handler string

func (h handler) Name() string { return string(h) }

func (handler) ServeDNS(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) { return 0, nil }
