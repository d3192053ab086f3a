// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/pkg/proxy"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/shell"
)

const (
	// readTimeout is for a connection, and again for the answer.
	readTimeout = 2 * time.Second
	// lastAttempt is the default of Handler.lastAttempt. The last attempt ends before the punt server answers
	// by itself, at 4.5 s.
	lastAttempt = 2200 * time.Millisecond
	// rounds: the first skips servers that are down.
	rounds = 2
)

// forwarder handles the queries for one zone, below *cache*.
type forwarder struct {
	handler *Handler
	zone    *ovn.Forward
	outcome atomic.Uint32
}

// Values of forwarder.outcome.
const (
	unasked  = iota // *cache* has answered so far
	answered        // by a server
	failed          // no server has answered
)

func (*forwarder) Name() string { return Name }

// ServeDNS does not call the next plugin if no server answers.
func (f *forwarder) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if isRepeated(ctx) {
		return f.handler.breakLoop(ctx, f.zone, w, r)
	}
	state := request.Request{W: w, Req: withoutOptions(r)}
	m, outcome := f.ask(ctx, &state)
	if x := explain.Of(ctx); x != nil {
		f.explain(x, m != nil, outcome) // not counted
	} else {
		requests.Inc(ctx, outcome)
	}
	f.outcome.Store(answered)
	if m == nil {
		f.outcome.Store(failed)
		m = new(dns.Msg).SetRcode(r, dns.RcodeServerFailure)
	}
	if err := w.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, plugin.Error(Name, err)
	}
	return dns.RcodeSuccess, nil
}

func (f *forwarder) explain(x *explain.Step, answered bool, outcome string) {
	x.Notef("zone %s of %s: %v: %s", f.zone.Zone, f.zone.NamedBy, f.servers(), outcome)
	if answered {
		return
	}
	finding := explain.Finding{Code: api.CodeUpstream, Text: fmt.Sprintf("zone %s, named by %s, is forwarded to %v, and none of these servers answers", f.zone.Zone, f.zone.NamedBy, f.servers())}
	if finding.Remedy = "see whether a DNS server runs there and this node reaches it: it is this node that asks, not the guest"; outcome == outcomeRefused {
		finding.Text = fmt.Sprintf("zone %s, named by %s, is forwarded to %v, and this node may ask none of these servers%s", f.zone.Zone, f.zone.NamedBy, f.servers(), f.whyRefused())
		finding.Remedy = "name a server that the node may ask for tenants, or permit this one by `allow` or `ports` in ovnforward"
	}
	for _, server := range f.servers() {
		// The zone is a tenant's: root pastes the line, and dig takes a leading - or @ for an option.
		finding.Commands = append(finding.Commands, fmt.Sprintf("dig @%s -p %d -q %s", server.Addr(), server.Port(), shell.Word(f.zone.Zone)))
	}
	x.Find(finding)
}

// whyRefused is about the first refused server.
func (f *forwarder) whyRefused() string {
	if f.zone.Rank >= f.handler.maxZones {
		return ": " + explanations[reasonZones]
	}
	for _, server := range f.servers() {
		if why := f.handler.refuses(server); why != permitted {
			return fmt.Sprintf(": %s: %s", server, explanations[why])
		}
	}
	return ""
}

// ask returns nil if no server answers.
func (f *forwarder) ask(ctx context.Context, state *request.Request) (m *dns.Msg, outcome string) {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, f.handler.lastAttempt+readTimeout)
	defer cancel()
	outcome = outcomeRefused
	for round := range rounds {
		for _, server := range f.servers() {
			if time.Since(begun) > f.handler.lastAttempt || ctx.Err() != nil {
				return nil, outcomeUnreachable
			}
			if f.handler.refuses(server) != permitted {
				continue // the node may have a new address
			}
			u := f.handler.pool.acquire(server)
			if u == nil {
				outcome = outcomeLimit
				continue
			}
			if round == 0 && u.isDown() {
				outcome = outcomeUnreachable
				u.release()
				continue
			}
			origin.SetUpstream(ctx, server)
			m, err := u.exchange(ctx, state)
			u.release()
			explainAttempt(ctx, server, err)
			if err == nil {
				metadata.SetValueFunc(ctx, Name+"/upstream", server.String)
				return m, outcomeOf(m)
			}
			outcome = outcomeUnreachable
		}
	}
	return nil, outcome
}

func explainAttempt(ctx context.Context, server netip.AddrPort, err error) {
	if x := explain.Of(ctx); x != nil && err != nil {
		x.Notef("asked %s: %v", server, err)
	} else if x != nil {
		x.Notef("asked %s, which has answered", server)
	}
}

func (f *forwarder) servers() []netip.AddrPort { return f.handler.serversOf(f.zone) }

// serversOf applies the limits.
func (h *Handler) serversOf(z *ovn.Forward) []netip.AddrPort {
	if z.Rank >= h.maxZones {
		return nil
	}
	return z.Servers[:min(len(z.Servers), h.maxServers)]
}

func (h *Handler) refuses(server netip.AddrPort) reason {
	return h.policy.refuses(server, h.node.Node())
}

var errOtherQuestion = errors.New("the answer is to another question")

// exchange repeats a truncated UDP query over TCP: the guest's TCP may go to another server, as in hijack
// mode, and *cache* does not store truncated answers.
func (u *upstream) exchange(ctx context.Context, state *request.Request) (*dns.Msg, error) {
	m, err := u.connect(ctx, state, proxy.Options{})
	if err != nil {
		u.failed()
		return nil, err
	}
	if m.Truncated && state.Proto() == "udp" {
		if whole, err := u.connect(ctx, state, proxy.Options{ForceTCP: true}); err == nil {
			return whole, nil
		}
	}
	return m, nil
}

// connect also limits TCP connects, for which package proxy takes up to 30 s.
func (u *upstream) connect(ctx context.Context, state *request.Request, o proxy.Options) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for {
		m, _, _, err := u.proxy.Connect(ctx, *state, o)
		switch {
		case errors.Is(err, proxy.ErrCachedClosed):
			continue // closed before; there is a bounded number
		case err != nil:
			return nil, err
		case !state.Match(m):
			return nil, errOtherQuestion
		}
		return m, nil
	}
}

// withoutOptions removes EDNS options: those of *rewrite* are for the operator's resolvers.
func withoutOptions(r *dns.Msg) *dns.Msg {
	m := *r
	m.Extra = nil
	if o := r.IsEdns0(); o != nil {
		m.Extra = []dns.RR{&dns.OPT{Hdr: o.Hdr}}
	}
	return &m
}
