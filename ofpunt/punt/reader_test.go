// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// answers reads so many messages and returns the number of writes that they came by.
func answers(t *testing.T, peer net.Conn, n int) (writes int) {
	t.Helper()
	_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
	for b := make([]byte, 1<<18); n > 0; writes++ {
		k, err := peer.Read(b)
		if err != nil {
			t.Fatalf("%v, %d answers are missing", err, n)
		}
		punttest.Each(b[:k], func(uint8, uint32) { n-- })
	}
	return writes
}

// What is read at once is answered at once, as long as the reader is not busy for long.
func TestReaderAnswersTogether(t *testing.T) {
	const n = 5
	for range 100 { // on a busy machine the reader may be kept from it for a while
		c, peer := newChannel(t)
		if _, err := peer.Write(bytes.Repeat(punttest.Punt(punttest.QueryFrame()), n)); err != nil {
			t.Fatal(err)
		}
		if answers(t, peer, n) == 1 && c.intake.workers.waiting.Load() == 0 {
			return
		}
	}
	t.Errorf("%d queries were never answered by one write and without a worker", n)
}

// A reader that has been busy for some time leaves the rest of what it has read to
// workers.
func TestReaderIsRelieved(t *testing.T) {
	c, peer := newChannelOf(t, func() { time.Sleep(2 * readerTime) }, nil)
	if _, err := peer.Write(punttest.Punt(punttest.QueryFrame())); err != nil {
		t.Fatal(err)
	}
	answers(t, peer, 1)
	await(t, "done by a worker", func() bool { return c.intake.workers.waiting.Load() != 0 })
}

// A query that blocks a reader sends those after it to workers, for a while.
func TestReaderBlocked(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name string
		s    *Server
		at   time.Time
		want bool
	}{
		{"chains that wait", &Server{}, now, false},
		{"chains that do not", &Server{Config: Config{FromMemory: true}}, now, true},
		{"a task lasts", lasted(), now, false},
		{"one has waited", blockedAt(now), now.Add(workersOnlyTime - time.Second), false},
		{"one has waited, long ago", blockedAt(now), now.Add(workersOnlyTime + time.Second), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.s.mayRunOnReader(tt.at); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func blockedAt(at time.Time) *Server {
	s := lasted()
	s.readerBlocked(bridgeName, at)
	return s
}

func lasted() *Server {
	s := &Server{Config: Config{FromMemory: true}}
	TaskLasts(&datagram{packet: packet{server: s, sender: sender{channel: &Channel{intake: &Intake{}}}}})
	return s
}
