// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coredns/coredns/plugin/forward"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/pkg/nonwriter"
	"github.com/coredns/coredns/plugin/pkg/proxy"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/metric"
)

// hedge asks a second server if the first server of a *forward* has not answered in time, and takes the first answer.
// *forward* itself waits for its read_timeout.
//
// The second server is of the last *forward* of a block only: an answer of another *forward* may be for the next
// *forward* (properties next, next_on_nodata), and a server of two forwards does not show the zone.
type hedge struct {
	after  time.Duration
	last   *forward.Forward
	others []namedServer // of last alone, in the order of the Corefile or a random one
	// open counts queries at *forward*, even after the second server's answer: max_concurrent no longer counts these,
	// but each has a socket.
	open atomic.Int64
}

// Over maxOpen open queries no second server is asked. maxOpen is the default of ofpunt's max_concurrent.
const maxOpen = 4096

type namedServer struct {
	*proxy.Proxy
	address netip.AddrPort
}

func newHedge(f *forward.Forward, after time.Duration) *hedge {
	if after == 0 {
		return nil
	}
	all := forwardsOf(f)
	h := &hedge{after: after, last: all[len(all)-1]}
	before := map[string]bool{}
	for _, f := range all[:len(all)-1] {
		for _, p := range f.List() {
			before[p.Addr()] = true
		}
	}
	for _, p := range h.last.List() {
		if a, err := netip.ParseAddrPort(p.Addr()); err == nil && !before[p.Addr()] {
			h.others = append(h.others, namedServer{p, a})
		}
	}
	if len(h.others) < 2 {
		return nil
	}
	return h
}

type try struct {
	m        *dns.Msg // nil without an answer
	code     int
	err      error
	panicked any
	labels   map[string]metadata.Func // metadata that names the server
	second   netip.AddrPort           // zero for *forward*
}

func (h *hedge) serve(ctx context.Context, f *forward.Forward, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	tries := make(chan try, 2) // nobody may read the later one
	asked := &askedServer{exchange: ctx}
	own, message := noteUpstream(ownMetadata(ctx), asked), r.Copy() // f changes both
	h.open.Add(1)
	start(tries, func() (t try) {
		defer h.open.Add(-1)
		nw := nonwriter.New(w)
		t.code, t.err = f.ServeDNS(own, nw, message)
		t.m, t.labels = nw.Msg, metadata.ValueFuncs(own)
		return t
	})
	timer := time.NewTimer(h.after)
	defer timer.Stop()
	for {
		select {
		case t := <-tries:
			return t.finish(ctx, w)
		case <-timer.C:
		}
		if asked.server.Load() != nil {
			break
		}
		timer.Reset(h.after) // on a busy node *forward* may not have asked yet
	}
	if s, ok := h.second(asked); ok {
		message := r.Copy()
		start(tries, func() try {
			labels := map[string]metadata.Func{"forward/upstream": s.Addr}
			return try{m: h.ask(ctx, s.Proxy, w, message), labels: labels, second: s.address}
		})
		t := better(tries)
		metric.HedgedQueries.WithLabelValues(t.server()).Inc()
		return t.finish(ctx, w)
	}
	t := <-tries
	return t.finish(ctx, w)
}

// start runs a try on a goroutine. finish repeats its panic in the chain.
func start(tries chan<- try, run func() try) {
	go func() {
		var t try
		defer func() {
			if p := recover(); p != nil {
				t = try{panicked: p}
			}
			tries <- t
		}()
		t = run()
	}()
}

// better returns the first try with an answer, else the try of *forward*.
func better(tries <-chan try) try {
	t := <-tries
	if t.m != nil || t.panicked != nil {
		return t
	}
	if other := <-tries; other.m != nil || t.second.IsValid() {
		return other
	}
	return t
}

// server is the label of metric.HedgedQueries.
func (t *try) server() string {
	switch {
	case t.m == nil:
		return "none"
	case t.second.IsValid():
		return "second"
	}
	return "first"
}

func (t *try) finish(ctx context.Context, w dns.ResponseWriter) (int, error) {
	if t.panicked != nil {
		panic(t.panicked)
	}
	if labels := metadata.ValueFuncs(ctx); labels != nil {
		maps.Copy(labels, t.labels)
	}
	if t.second.IsValid() {
		origin.SetUpstream(ctx, t.second)
	}
	if t.m != nil {
		_ = w.WriteMsg(t.m) // as *forward* does
	}
	return t.code, t.err
}

// second returns the next server that is not down.
func (h *hedge) second(asked *askedServer) (s namedServer, ok bool) {
	if h.open.Load() > maxOpen {
		return s, false
	}
	first := asked.server.Load()
	i := slices.IndexFunc(h.others, func(s namedServer) bool { return s.address == *first })
	if i < 0 {
		return s, false
	}
	for _, s := range slices.Concat(h.others[i+1:], h.others[:i]) {
		if !s.Down(failedChecks) {
			return s, true
		}
	}
	return s, false
}

// secondTimeout bounds connecting. Package proxy bounds the wait for an answer.
const secondTimeout = 2 * time.Second

// ask returns nil for an answer that a property of *forward* might reject.
func (h *hedge) ask(ctx context.Context, p *proxy.Proxy, w dns.ResponseWriter, r *dns.Msg) *dns.Msg {
	ctx, cancel := context.WithTimeout(ctx, secondTimeout)
	defer cancel()
	state := request.Request{W: w, Req: r}
	options := proxy.Options{ForceTCP: h.last.ForceTCP(), PreferUDP: h.last.PreferUDP(), TLSConnectDeadline: time.Now().Add(secondTimeout)}
	for {
		m, _, _, err := p.Connect(ctx, state, options)
		switch {
		case errors.Is(err, proxy.ErrCachedClosed):
			continue // closed before use; the number of cached connections is bounded
		case err != nil:
			p.Healthcheck()
			return nil
		case !state.Match(m), m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError, m.Truncated && options.PreferUDP:
			return nil
		}
		return m
	}
}

// askedServer records the server that *forward* asked last, and passes it on to the exchange.
type askedServer struct {
	exchange context.Context // has the exchange
	server   atomic.Pointer[netip.AddrPort]
}

func (a *askedServer) SetUpstream(server netip.AddrPort) {
	a.server.Store(&server)
	origin.SetUpstream(a.exchange, server)
}

// ownMetadata copies labels: *forward* adds a label, perhaps after the answer.
func ownMetadata(ctx context.Context) context.Context {
	labels := metadata.ValueFuncs(ctx)
	if labels == nil {
		return ctx
	}
	own := metadata.ContextWithMetadata(ctx)
	maps.Copy(metadata.ValueFuncs(own), labels)
	return own
}
