// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coredns/coredns/plugin/forward"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/pkg/proxy"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"
	"github.com/opentracing/opentracing-go"
	"github.com/opentracing/opentracing-go/mocktracer"
)

type toldUpstreams struct {
	mu  sync.Mutex
	all []netip.AddrPort
}

func (t *toldUpstreams) SetUpstream(server netip.AddrPort) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, server)
}

func (t *toldUpstreams) told() []netip.AddrPort {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.all)
}

// forward reports its server before it asks, and a trace keeps its spans.
func TestNoteUpstream(t *testing.T) {
	for _, traced := range []bool{false, true} {
		var upstreams toldUpstreams
		var known atomic.Int64
		s := dnstest.NewServer(func(w dns.ResponseWriter, r *dns.Msg) {
			known.Store(int64(len(upstreams.told())))
			_ = w.WriteMsg(new(dns.Msg).SetReply(r))
		})
		f := forward.New()
		f.SetProxy(proxy.NewProxy("forward", s.Addr, "dns"))
		if err := f.OnStartup(); err != nil {
			t.Fatal(err)
		}
		tracer, ctx := mocktracer.New(), context.Background()
		if traced {
			ctx = opentracing.ContextWithSpan(ctx, tracer.StartSpan("outer"))
		}
		_, err := f.ServeDNS(noteUpstream(ctx, &upstreams), dnstest.NewRecorder(&test.ResponseWriter{}), new(dns.Msg).SetQuestion("a.", dns.TypeA))
		told := upstreams.told()
		if _, port, _ := net.SplitHostPort(s.Addr); err != nil || known.Load() != 1 || len(told) != 1 || told[0] != netip.MustParseAddrPort("127.0.0.1:"+port) && told[0].String() != s.Addr {
			t.Errorf("traced %v: told %v, %d of them before the answer, %v", traced, told, known.Load(), err)
		}
		spans := tracer.FinishedSpans()
		if n := len(spans); traced != (n == 1) {
			t.Errorf("%d spans", n)
		}
		for _, span := range spans {
			if span.OperationName != "connect" || span.Tag("peer.address") != s.Addr || span.ParentID == 0 {
				t.Errorf("%v", span)
			}
		}
		_ = f.OnShutdown()
		s.Close()
	}
}
