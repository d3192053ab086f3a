// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/punttest"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// The last server waits for the queries in its chains, then until the switch has processed their answers, and then
// ends the connection: queued answers would be lost with it.
func TestShutDownDeliversLastAnswers(t *testing.T) {
	const (
		packetOut, barrier = 13, 20
	)
	conn, peer := punttest.Connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// A barrier before the answer would close asked at once.
	inChain, asked := make(chan struct{}), make(chan struct{})
	srv := chainServer(t, func(plugin.Handler) plugin.Handler {
		return plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			close(inChain)
			select {
			case <-asked:
			case <-time.After(50 * time.Millisecond):
			}
			if err := w.WriteMsg(new(dns.Msg).SetReply(r)); err != nil {
				t.Errorf("the answer: %v", err)
			}
			return dns.RcodeSuccess, nil
		})
	})
	b := &Bridge{
		name: srv.Options.Name, tally: metric.NewTally(srv.Options.Name),
		feed: new(watch.Feed), wake: make(chan struct{}, 1), withdraw: make(chan withdrawal), cancel: cancel, ctx: ctx,
	}
	b.punts = punt.NewIntake(b.puntBridge())
	b.conn.Store(conn)
	b.serve(srv)
	v := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: "1", Name: "tap", OFPort: 5, IfaceID: "port-1"}}}, nil)
	v.SetDrained()
	b.ports.Set(v)
	bridges := NewRegistry(new(watch.Feed))
	bridges.m[b.name] = b
	s := newSession(b, conn, 1)
	served := make(chan error, 1)
	go func() { served <- conn.Serve(s.handler()) }()
	if _, err := peer.Write(punttest.Punt(punttest.QueryFrame())); err != nil {
		t.Fatal(err)
	}
	<-inChain
	b.done.Go(func() {
		close((<-b.withdraw).gone)
		<-ctx.Done()
		conn.Close()
		<-served
	})

	done := make(chan struct{})
	go func() {
		defer close(done)
		bridges.Stop(srv, true, true)
	}()
	var had []uint8
	_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
	for buf := make([]byte, 1<<16); ; {
		n, err := peer.Read(buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		punttest.Each(buf[:n], func(typ uint8, xid uint32) {
			if had = append(had, typ); typ != barrier {
				return
			}
			close(asked)
			select {
			case <-done:
				t.Error("the server is stopped before the switch has confirmed the answer")
			case <-time.After(50 * time.Millisecond):
			}
			if _, err := peer.Write(punttest.Message(barrier+1, xid, nil)); err != nil {
				t.Errorf("the connection is gone already: %v", err)
			}
		})
	}
	<-done
	if want := []uint8{packetOut, barrier}; !slices.Equal(had, want) {
		t.Errorf("the switch has had messages of the types %d before the end, want %d", had, want)
	}
}
