// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"context"
	"net"
	"testing"

	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"
)

// handler makes a function a plugin.
type handler func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error)

func (handler) Name() string { return "test" }
func (h handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	return h(ctx, w, r)
}

// nobody is the writer of a prefetch (CoreDNS's plugin/cache, prefetchAddr).
type nobody struct{ test.ResponseWriter }

func (nobody) LocalAddr() net.Addr { return &net.TCPAddr{} }

// refreshing is a block whose cache asks for answers anew.
func refreshing(t *testing.T) caddyfile.ServerBlock {
	return parseBlock(t, ".", "metadata\n cache {\n prefetch 1\n }")
}

// A query that *cache* makes by itself has the labels of the guest's, those that the block does
// not name among them: *cache* gives it none.
func TestPrefetchHasLabels(t *testing.T) {
	c := New(Options{Block: refreshing(t), Labels: []string{"ofpunt/port"}})
	seen := map[string]string{}
	below := c.Below(handler(func(ctx context.Context, _ dns.ResponseWriter, _ *dns.Msg) (int, error) {
		for label, f := range metadata.ValueFuncs(ctx) {
			seen[label] = f()
		}
		return 0, nil
	}))
	above := c.Above(handler(func(ctx context.Context, _ dns.ResponseWriter, r *dns.Msg) (int, error) {
		return below.ServeDNS(metadata.ContextWithMetadata(ctx), &nobody{}, r)
	}))
	ctx := metadata.ContextWithMetadata(t.Context())
	metadata.SetValueFunc(ctx, "ofpunt/port", func() string { return "vm1" })
	metadata.SetValueFunc(ctx, "other/label", func() string { return "x" })
	r := new(dns.Msg).SetQuestion("x.test.", dns.TypeA)
	if _, err := above.ServeDNS(ctx, &test.ResponseWriter{}, r); err != nil {
		t.Fatal(err)
	}
	if seen["ofpunt/port"] != "vm1" || seen["other/label"] != "x" {
		t.Errorf("the plugins below see %q", seen)
	}
	q := question{"x.test.", dns.TypeA, dns.ClassINET}
	if got := c.vary.known(q).labels; got != 3 {
		t.Errorf("%b has been read, want two labels", got)
	}
}

// *cache* reads labels that the plugins below have set when it stores the answer.
func TestLabelsFromBelow(t *testing.T) {
	c := New(Options{})
	below := c.Below(handler(func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		metadata.SetValueFunc(ctx, "zone/wildcard", func() string { return "*.test." })
		return 0, w.WriteMsg(new(dns.Msg).SetReply(r))
	}))
	stored := ""
	above := c.Above(handler(func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		return below.ServeDNS(ctx, onWrite{w, func() { stored = metadata.ValueFunc(ctx, "zone/wildcard")() }}, r)
	}))
	ctx := metadata.ContextWithMetadata(t.Context())
	if _, err := above.ServeDNS(ctx, &test.ResponseWriter{}, new(dns.Msg).SetQuestion("x.test.", dns.TypeA)); err != nil {
		t.Fatal(err)
	}
	if stored != "*.test." || metadata.ValueFunc(ctx, "zone/wildcard") == nil {
		t.Errorf("cache sees %q", stored)
	}
}

// onWrite calls f before it writes.
type onWrite struct {
	dns.ResponseWriter
	f func()
}

func (w onWrite) WriteMsg(m *dns.Msg) error { w.f(); return w.ResponseWriter.WriteMsg(m) }

// The same values of other labels are another key variant.
func TestRealmHasLabels(t *testing.T) {
	c := New(Options{Labels: []string{"a/a", "a/b"}})
	ctx := metadata.ContextWithMetadata(t.Context())
	for _, l := range []string{"a/a", "a/b"} {
		metadata.SetValueFunc(ctx, l, func() string { return "same" })
	}
	seen := map[string]bool{}
	for i, name := range []string{"x.test.", "y.test.", "z.test."} {
		q := &query{cache: c, ResponseWriter: &test.ResponseWriter{}, question: question{name, 1, 1}}
		c.vary.add(q.question, mask(i+1))
		seen[c.prefix(c.keyVariant(nil, ctx, q, new(dns.Msg)))] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d key variants, want 3", len(seen))
	}
}
