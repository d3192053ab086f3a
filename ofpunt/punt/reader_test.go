// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/punttest"
	"github.com/puntdns/puntdns/ofpunt/tcp"
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
	testkit.Eventually(t, "done by a worker", func() bool { return c.intake.workers.waiting.Load() != 0 })
}

// Behind a batch of which something was left to others, the reader has them run; one that it has dealt with
// by itself it reads on behind.
func TestReaderYields(t *testing.T) {
	const other = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01b\x00\x00\x01\x00\x01"
	otherFrame := punttest.QueryFrame()
	otherFrame[len(otherFrame)-6] = 'b'
	datagrams := func(frame []byte) func(uint32) []byte {
		return func(uint32) []byte { return bytes.Repeat(punttest.Punt(frame), 2) }
	}
	segments := func(payload []byte) func(uint32) []byte {
		return func(next uint32) []byte {
			mere := punttest.Punt(punttest.Segment(t, 8, next, punttest.ACK, nil))
			return append(mere, punttest.Punt(punttest.Segment(t, 8, next, punttest.ACK, payload))...)
		}
	}
	for _, tt := range []struct {
		name  string
		batch func(next uint32) []byte
		want  int32
	}{
		{"queries for a known name", datagrams(punttest.QueryFrame()), 0},
		{"queries for another one, which workers answer", datagrams(otherFrame), 1},
		{"the query of a connection, for a known name", segments(overTCP(punttest.Query)), 0},
		{"the query of a connection, for another one", segments(overTCP(other)), 1},
		{"a part of a query, which gVisor gets", segments(overTCP(other)[:5]), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := int32(-1)
			for range 100 { // on a busy machine the reader may leave some to workers
				if got = yieldsBehind(t, tt.batch); got == tt.want {
					return
				}
			}
			t.Errorf("others ran %d times, want %d", got, tt.want)
		})
	}
}

// yieldsBehind is how often the reader lets others run behind a batch of messages, which is told what the
// segments of a connection acknowledge.
func yieldsBehind(t *testing.T, batch func(next uint32) []byte) int32 {
	t.Helper()
	var yields atomic.Int32
	conn, peer := punttest.ConnectYielding(t, func() { yields.Add(1) })
	stack, err := tcp.New()
	if err != nil {
		t.Fatal(err)
	}
	c := newChannelOn(t, conn, func() {}, stack)
	guestIs(c.intake, "1")
	serve(c.intake, reply, func(c *Config) { c.FromMemory = true })
	next := begin(t, peer)
	send(t, peer, batch(next))
	// What is read behind the batch has its answer behind those of the batch, which are none for gVisor.
	send(t, peer, punttest.Punt(arpFrame()))
	for isARP := false; !isARP; {
		isARP = bytes.Contains(packetOut(t, peer), []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 2})
	}
	return yields.Load()
}

// The reader runs a chain with *cache* until the chain leaves the reader. Another goroutine takes the queries
// behind, over UDP and over TCP.
func TestChainLeavesReader(t *testing.T) {
	query := func(label byte) []byte {
		q := bytes.Clone([]byte(punttest.Query))
		q[len(q)-6] = label
		return q
	}
	datagram := func(label byte) []byte {
		f := punttest.QueryFrame()
		f[len(f)-6] = label
		return punttest.Punt(f)
	}
	for _, tt := range []struct {
		name string
		miss func(t *testing.T, next uint32) []byte
	}{
		{"UDP", func(*testing.T, uint32) []byte { return datagram('b') }},
		{"TCP", func(t *testing.T, next uint32) []byte {
			return punttest.Punt(punttest.Segment(t, 8, next, punttest.ACK, overTCP(string(query('b')))))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 100 { // on a busy machine the reader may leave all of them to workers
				if leavesReader(t, tt.miss) {
					return
				}
			}
			t.Error("the reader has never run two queries of one read")
		})
	}
}

// leavesReader sends a query that leaves the reader and waits, and two others behind. It reports whether the reader ran
// all of them.
func leavesReader(t *testing.T, miss func(t *testing.T, next uint32) []byte) bool {
	t.Helper()
	conn, peer := punttest.Connect(t)
	stack, err := tcp.New()
	if err != nil {
		t.Fatal(err)
	}
	c := newChannelOn(t, conn, func() {}, stack)
	guestIs(c.intake, "1")
	release := make(chan struct{})
	var onReader atomic.Int64
	s := serve(c.intake, func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) {
		x, _ := FromContext(ctx)
		if x.onReader() {
			onReader.Add(1)
		}
		if r.Question[0].Name == "b." {
			x.LeaveReader()
			if x.onReader() || !x.Left() {
				t.Error("the query is still on the reader")
			}
			<-release
		}
		reply(ctx, w, r)
	}, func(c *Config) { c.FromCache = true })
	s.hits.balance.Store(hitsPerMiss) // a miss is not too much
	next := begin(t, peer)
	send(t, peer, miss(t, next), punttest.Punt(punttest.QueryFrame()), punttest.Punt(punttest.QueryFrame()))
	answers(t, peer, 2)
	close(release)
	answers(t, peer, 1)
	if onReader.Load() < 3 {
		return false
	}
	if s.workersUntil.Load() != 0 {
		t.Error("a query counts as one that has blocked the reader")
	}
	return true
}

// While many queries miss *cache*, workers run all of them. Without databases there is nothing to find.
func TestWorkersRunMisses(t *testing.T) {
	c, peer := newChannel(t)
	guestIs(c.intake, "1")
	s := serve(c.intake, reply, func(c *Config) { c.FromCache, c.Find = true, nil })
	s.hits.balance.Store(-1)
	send(t, peer, punttest.Punt(punttest.QueryFrame()))
	answers(t, peer, 1)
	testkit.Eventually(t, "run by a worker", func() bool { return c.intake.workers.waiting.Load() != 0 })
}

// Chains with *cache* stay off the reader while many queries would leave it.
func TestHitBalance(t *testing.T) {
	var h hitBalance
	steps := func(hits, misses int) {
		for range hits {
			h.hit()
		}
		for range misses {
			h.miss()
		}
	}
	for _, tt := range []struct {
		name         string
		hits, misses int
		want         bool
	}{
		{"at the beginning", 0, 0, true},
		{"one miss", 0, 1, false},
		{"as many hits as that costs", hitsPerMiss, 0, true},
		{"a flood of misses", 0, 10000, false},
		{"less than it may count", maxBalance - 1, 0, false},
		{"more than that", 2 * hitsPerMiss, 0, true},
		{"a long time of hits", 10000, 0, true},
		{"more misses than may count", 0, maxBalance/hitsPerMiss + 1, false},
	} {
		steps(tt.hits, tt.misses)
		if got := h.pays(); got != tt.want {
			t.Errorf("%s: %v, balance %d", tt.name, got, h.balance.Load())
		}
	}
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
