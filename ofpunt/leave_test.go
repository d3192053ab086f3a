// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Who leaves a bridge waits for the queries in its chains, then until the switch has
// had their answers, and only then ends the connection: what is queued would go with
// it.
func TestLeaveDeliversLastAnswers(t *testing.T) {
	const (
		packetOut, barrier = 13, 20
		answered           = 1 // the transaction of the answer
	)
	conn, peer := connection(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := defaultOptions("br-leave")
	s := &server{options: o, admission: newAdmission(1)}
	b := &bridge{
		name: o.Bridge, tally: newTally(o.Bridge), workers: newWorkers(),
		wake: make(chan struct{}, 1), withdraw: make(chan chan struct{}), cancel: cancel,
	}
	b.current.Store(s)
	b.conn.Store(conn)
	bridges.mu.Lock()
	bridges.m = map[string]*bridge{b.name: b}
	bridges.mu.Unlock()
	served := make(chan error, 1)
	go func() { served <- conn.Serve(openflow.Handler{}) }()
	// The session, which has one query in its chain when the flows are gone. Were
	// the switch asked before there is an answer, that would be at once.
	s.admission.count.Add(1)
	asked := make(chan struct{})
	b.done.Go(func() {
		close(<-b.withdraw)
		select {
		case <-asked:
		case <-time.After(50 * time.Millisecond):
		}
		if err := conn.Write(message(packetOut, answered, make([]byte, 16))); err != nil {
			t.Errorf("the answer: %v", err)
		}
		s.admission.count.Add(-1)
		<-ctx.Done()
		conn.Close()
		<-served
	})

	left := make(chan struct{})
	go func() {
		defer close(left)
		(&instance{servers: []*server{s}}).leave(nil)
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
		each(buf[:n], func(typ uint8, xid uint32) {
			if had = append(had, typ); typ != barrier {
				return
			}
			close(asked)
			select {
			case <-left:
				t.Error("it has left before the switch has said that it has the answer")
			case <-time.After(50 * time.Millisecond):
			}
			if _, err := peer.Write(message(barrier+1, xid, nil)); err != nil {
				t.Errorf("the connection is gone already: %v", err)
			}
		})
	}
	<-left
	if want := []uint8{packetOut, barrier}; !slices.Equal(had, want) {
		t.Errorf("the switch has had messages of the types %d before the end, want %d", had, want)
	}
}
