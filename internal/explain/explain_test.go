// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
	"github.com/opentracing/opentracing-go"
	"github.com/opentracing/opentracing-go/ext"

	"github.com/puntdns/puntdns/internal/explain"
)

// handler is a plugin of a chain. It calls do before the next plugin.
type handler struct {
	name string
	next plugin.Handler
	do   func(ctx context.Context)
}

func (h *handler) Name() string { return h.name }

func (h *handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if h.do != nil {
		h.do(ctx)
	}
	if h.next == nil {
		return dns.RcodeServerFailure, errors.New("the end")
	}
	return plugin.NextOrFailure(h.name, h.next, ctx, w, r)
}

func note(text string) func(context.Context) {
	return func(ctx context.Context) { explain.Of(ctx).Notef("%s", text) }
}

// render returns the steps of a report, one on each line.
func render(r *explain.Report) string {
	var b strings.Builder
	for i, s := range r.Steps {
		state := ""
		for _, f := range []struct {
			is   bool
			word string
		}{{s.Left, " left"}, {s.Passed, " passed"}, {!s.Ended, " pending"}, {i == r.Answered, " answered"}} {
			if f.is {
				state += f.word
			}
		}
		fmt.Fprintf(&b, "%s%s%s %q\n", strings.Repeat(" ", s.Depth), s.Plugin, state, s.Notes)
	}
	return b.String()
}

// CoreDNS itself starts the spans: a plugin that does not use this package has a step too.
func TestChain(t *testing.T) {
	e := explain.New()
	defer e.End()
	forward := &handler{name: "forward", do: func(ctx context.Context) {
		parent := opentracing.SpanFromContext(ctx)
		child := parent.Tracer().StartSpan("connect", opentracing.ChildOf(parent.Context()))
		ext.PeerAddress.Set(child, "192.0.2.1:53")
		child.Finish()
		e.Answer()
		e.Answer() // the first counts
	}}
	own := &handler{name: "ofpunt", next: forward, do: func(ctx context.Context) {
		x := explain.Of(ctx)
		x.Leave("cache", "has no entry")
		x.Find(explain.Finding{Code: "code", Text: "found"})
		x.Find(explain.Finding{Code: "code", Text: "found", Remedy: "again"})
	}}
	hosts := &handler{name: "ovnhosts", next: own, do: note("not known")}
	first := &handler{name: "ofpunt", next: hosts, do: func(ctx context.Context) {
		x := explain.Of(ctx)
		x.Try(explain.View{Block: "Corefile:1", Name: "gold"})
		x.Take("Corefile:9", "red")
		x.Take("Corefile:1", "gold") // of a lookup
		x.Try(explain.View{Block: "Corefile:1", Name: "gold"})
	}}
	if code, err := first.ServeDNS(e.Context(context.Background()), nil, new(dns.Msg)); code != dns.RcodeServerFailure || err == nil {
		t.Fatal(code, err)
	}
	r := e.Report()
	const want = `ovnhosts passed ["not known"]
 cache left ["has no entry"]
 forward answered []
  connect ["192.0.2.1:53"]
`
	if got := render(&r); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if !r.Taken || r.Block != "Corefile:9" || r.View != "red" || len(r.Views) != 1 || r.Pending != -1 {
		t.Errorf("%+v", r)
	}
	if len(r.Findings) != 1 || !reflect.DeepEqual(r.Findings[0], explain.Finding{Code: "code", Text: "found"}) {
		t.Errorf("%+v", r.Findings)
	}
}

// The upstreams are the upstreams of the forward that asked last.
func TestAsked(t *testing.T) {
	e := explain.New()
	defer e.End()
	ask := func(addresses ...string) func(context.Context) {
		return func(ctx context.Context) {
			for _, address := range addresses {
				parent := opentracing.SpanFromContext(ctx)
				child := parent.Tracer().StartSpan("connect", opentracing.ChildOf(parent.Context()))
				ext.PeerAddress.Set(child, address)
				child.Finish()
			}
		}
	}
	var first, alone []string
	other := &handler{name: "other", do: ask("192.0.2.9:53")}
	third := &handler{name: "forward", next: other, do: func(ctx context.Context) { alone = explain.Of(ctx).Asked() }}
	second := &handler{name: "forward", next: third, do: ask("192.0.2.2:53", "192.0.2.3:53", "192.0.2.2:53")}
	var step *explain.Step
	outer := &handler{name: "forward", next: second, do: func(ctx context.Context) { step = explain.Of(ctx) }}
	_, _ = (&handler{name: "ofpunt", next: outer}).ServeDNS(e.Context(context.Background()), nil, new(dns.Msg))
	if first = step.Asked(); !slices.Equal(first, []string{"192.0.2.2:53", "192.0.2.3:53"}) || !step.Passed() || len(alone) > 0 {
		t.Errorf("asked %q, and %q", first, alone)
	}
}

// A chain that goes on after the end adds nothing, and a plugin that has not returned is named.
func TestPending(t *testing.T) {
	e := explain.New()
	wait, waits := make(chan struct{}), make(chan struct{})
	slow := &handler{name: "slow", do: func(ctx context.Context) {
		explain.Of(ctx).Notef("asks")
		close(waits)
		<-wait
	}}
	first := &handler{name: "ofpunt", next: slow}
	ctx := e.Context(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = first.ServeDNS(ctx, nil, new(dns.Msg)) })
	<-waits
	r := e.Report()
	if got := render(&r); got != "slow pending [\"asks\"]\n" || r.Pending != 0 || r.Answered != -1 {
		t.Errorf("%s%+v", got, r)
	}
	e.End()
	e.End() // once is enough
	close(wait)
	wg.Wait()
	if x := explain.Of(ctx); x != nil {
		t.Error("an explanation that has ended is still wanted")
	}
	e.Find(explain.Finding{Code: "code", Text: "too late"})
	if r := e.Report(); len(r.Findings) > 0 {
		t.Errorf("%+v", r)
	}
}

// What one explanation keeps is bounded.
func TestBounds(t *testing.T) {
	e := explain.New()
	defer e.End()
	x := explain.Of(e.Context(context.Background()))
	for i := range 2000 {
		x.Leave("plugin", "note")
		x.Notef("%s", strings.Repeat("a", 5000))
		e.Find(explain.Finding{Code: "code", Text: strconv.Itoa(i)})
	}
	r := e.Report()
	if len(r.Steps) != 500 || len(r.Notes) != 50 || len(r.Notes[0]) != 2000 || len(r.Findings) != 50 || !r.Truncated {
		t.Errorf("%d steps, %d notes, %d findings, truncated %v", len(r.Steps), len(r.Notes), len(r.Findings), r.Truncated)
	}
}

// The plugin whose stored answer counts has answered, and the one behind it would have.
func TestStoredAnswer(t *testing.T) {
	e := explain.New()
	defer e.End()
	forward := &handler{name: "forward", do: func(ctx context.Context) {
		x := explain.Of(ctx)
		x.WouldAnswer()
		for _, address := range []string{"192.0.2.1:53", "192.0.2.2:53", "192.0.2.1:53"} {
			parent := opentracing.SpanFromContext(ctx)
			child := parent.Tracer().StartSpan("connect", opentracing.ChildOf(parent.Context()))
			ext.PeerAddress.Set(child, address)
			child.Finish()
		}
		if got, want := x.Asked(), []string{"192.0.2.1:53", "192.0.2.2:53"}; !slices.Equal(got, want) {
			t.Errorf("asked %q, want %q", got, want)
		}
	}}
	first := &handler{name: "ofpunt", next: forward, do: func(ctx context.Context) {
		cache := explain.Of(ctx).Enter("cache")
		e.Answer()
		cache.End()
	}}
	_, _ = first.ServeDNS(e.Context(context.Background()), nil, new(dns.Msg))
	r := e.Report()
	if r.Answered != 0 || r.Steps[0].Plugin != "cache" || r.WouldAnswer != 1 || r.Steps[1].Plugin != "forward" {
		t.Errorf("%+v", r)
	}
}

func TestContent(t *testing.T) {
	record := func(text string) dns.RR {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		return rr
	}
	m := &dns.Msg{Answer: []dns.RR{record("b.test. 7 IN A 192.0.2.2"), record("b.test. 9 IN A 192.0.2.1")}}
	if got, want := explain.Content(m), "NOERROR A 192.0.2.1, A 192.0.2.2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	m = &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeNameError}}
	if got, want := explain.Content(m), "NXDOMAIN"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What is stored and what comes now differ only if both are whole answers.
func TestCached(t *testing.T) {
	answer := func(rcode int, truncated bool) *dns.Msg {
		return &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: rcode, Truncated: truncated}}
	}
	stored := answer(dns.RcodeSuccess, false)
	for _, tc := range []struct {
		name  string
		below *dns.Msg
		want  string
	}{
		{"the same", answer(dns.RcodeSuccess, false), "NOERROR, NOERROR"},
		{"a denial", answer(dns.RcodeNameError, false), "NOERROR, NXDOMAIN"},
		{"a truncated answer", answer(dns.RcodeSuccess, true), ", "},
		{"an error", answer(dns.RcodeServerFailure, false), ", "},
		{"a refusal", answer(dns.RcodeRefused, false), ", "},
	} {
		e := explain.New()
		explain.Of(e.Context(context.Background())).Cached(stored, tc.below)
		r := e.Report()
		e.End()
		if got := r.Cached + ", " + r.Below; got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// anyKey is the context key of something else.
type anyKey struct{}

// Without an explanation a query pays nothing.
func TestNobody(t *testing.T) {
	ctx := context.WithValue(context.Background(), anyKey{}, 1)
	if n := testing.AllocsPerRun(100, func() {
		if explain.Of(ctx) != nil {
			t.Error("a step")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOf(b *testing.B) {
	b.Run("nobody", func(b *testing.B) {
		ctx := context.WithValue(context.Background(), anyKey{}, 1)
		b.ReportAllocs()
		for b.Loop() {
			explain.Of(ctx)
		}
	})
	b.Run("another query", func(b *testing.B) {
		e := explain.New()
		defer e.End()
		ctx := context.WithValue(context.Background(), anyKey{}, 1)
		b.ReportAllocs()
		for b.Loop() {
			explain.Of(ctx)
		}
	})
}
