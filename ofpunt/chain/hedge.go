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
)

// hedge asks a second server of a *forward* if the first server of a query has not answered in time, and takes the
// answer that comes first. *forward* itself waits for the first server for its read_timeout.
//
// The second server is one of the last *forward* of a block, for two reasons: the answer of another one may be for
// the *forward* behind it (its properties next and next_on_nodata), and a server that two of them name does not say
// which zone the query is in.
type hedge struct {
	after  time.Duration
	last   *forward.Forward
	others []namedServer // of last alone, in the order of the Corefile or a random one
	// open is the number of queries at *forward*, with the ones that a second server has answered. max_concurrent
	// does not count those, and each has a socket.
	open atomic.Int64
}

// maxOpen is the number of queries at *forward* from which on no second server is asked. It is the default of
// max_concurrent.
const maxOpen = 4096

// namedServer is a server of a *forward* with its address.
type namedServer struct {
	*proxy.Proxy
	address netip.AddrPort
}

// newHedge returns the hedge of a *forward* and the ones behind it, nil if there is no second server.
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

// try is what has come of the query at *forward*, or at the second server.
type try struct {
	m        *dns.Msg // nil without an answer
	code     int
	err      error
	panicked any
	labels   map[string]metadata.Func // what the log shows of the server
	second   netip.AddrPort           // zero for *forward*
}

// serve is f.ServeDNS with a second server.
func (h *hedge) serve(ctx context.Context, f *forward.Forward, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	tries := make(chan try, 2) // the later one may have no reader
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
	select {
	case t := <-tries:
		return t.finish(ctx, w)
	case <-timer.C:
	}
	if s, ok := h.second(asked); ok {
		message := r.Copy()
		start(tries, func() try {
			labels := map[string]metadata.Func{"forward/upstream": s.Addr}
			return try{m: h.ask(ctx, s.Proxy, w, message), labels: labels, second: s.address}
		})
		t := better(tries)
		return t.finish(ctx, w)
	}
	t := <-tries
	return t.finish(ctx, w)
}

// start runs a try on a goroutine. A panic there is of the query, and not of the process.
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

// better returns the first of two tries with an answer. If neither has one, it returns the one of *forward*.
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

// finish writes the answer of a try, and says who has given it.
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

// second returns the server to ask beside the one that *forward* asks: the next one behind it that is not down.
func (h *hedge) second(asked *askedServer) (s namedServer, ok bool) {
	first := asked.server.Load()
	if first == nil || h.open.Load() > maxOpen {
		return s, false
	}
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

// secondTimeout bounds the time for a connection to the second server. Package proxy bounds the time for its answer.
const secondTimeout = 2 * time.Second

// ask returns the answer of the second server, nil for none that *forward* would be content with whatever its
// properties.
func (h *hedge) ask(ctx context.Context, p *proxy.Proxy, w dns.ResponseWriter, r *dns.Msg) *dns.Msg {
	ctx, cancel := context.WithTimeout(ctx, secondTimeout)
	defer cancel()
	state := request.Request{W: w, Req: r}
	options := proxy.Options{ForceTCP: h.last.ForceTCP(), PreferUDP: h.last.PreferUDP(), TLSConnectDeadline: time.Now().Add(secondTimeout)}
	for {
		m, _, _, err := p.Connect(ctx, state, options)
		switch {
		case errors.Is(err, proxy.ErrCachedClosed):
			continue // the connection was closed before; there is a bounded number of them
		case err != nil:
			p.Healthcheck()
			return nil
		case !state.Match(m), m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError, m.Truncated && options.PreferUDP:
			return nil
		}
		return m
	}
}

// askedServer is the server that *forward* has asked last, for the hedge and for the exchange of the query.
type askedServer struct {
	exchange context.Context // has it
	server   atomic.Pointer[netip.AddrPort]
}

// SetUpstream implements origin.UpstreamSetter.
func (a *askedServer) SetUpstream(server netip.AddrPort) {
	a.server.Store(&server)
	origin.SetUpstream(a.exchange, server)
}

// ownMetadata returns ctx with a copy of its labels: *forward* adds one, perhaps after the query has been answered.
func ownMetadata(ctx context.Context) context.Context {
	labels := metadata.ValueFuncs(ctx)
	if labels == nil {
		return ctx
	}
	own := metadata.ContextWithMetadata(ctx)
	maps.Copy(metadata.ValueFuncs(own), labels)
	return own
}
