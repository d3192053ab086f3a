// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// begin shakes hands for a guest and returns what its next segment acknowledges; its
// sequence number is 8.
func begin(t *testing.T, peer net.Conn) (next uint32) {
	t.Helper()
	if _, err := peer.Write(punttest.Punt(punttest.Segment(t, 7, 0, punttest.SYN, nil))); err != nil {
		t.Fatal(err)
	}
	return binary.BigEndian.Uint32(synAck(t, peer)[4:]) + 1
}

// acknowledged is what the SYN-ACK acknowledges that has to come.
func acknowledged(t *testing.T, peer net.Conn) uint32 {
	t.Helper()
	return binary.BigEndian.Uint32(synAck(t, peer)[8:])
}

// synAck is the SYN-ACK that has to come.
func synAck(t *testing.T, peer net.Conn) (segment []byte) {
	t.Helper()
	s, ok := segmentTo(t, peer, 20*time.Second)
	if !ok || s.Segment[13] != punttest.SYN|punttest.ACK {
		t.Fatalf("no SYN-ACK: %x", s.Segment)
	}
	return s.Segment
}

// segmentTo is the next segment to the guest, or false after a time.
func segmentTo(t *testing.T, peer net.Conn, patience time.Duration) (s frame.TCP, ok bool) {
	t.Helper()
	_ = peer.SetReadDeadline(time.Now().Add(patience))
	m := make([]byte, 1<<16)
	n, err := peer.Read(m)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return s, false
	}
	if err != nil {
		t.Fatal(err)
	}
	if s, err = punttest.SegmentIn(m); err != nil {
		t.Fatalf("%v: %x, %d bytes", err, m[:n], n)
	}
	return s, true
}

// The time of a segment is that of its read, and now for one that came before any read.
func TestReadAt(t *testing.T) {
	conn, peer := punttest.Connect(t)
	t.Cleanup(func() { conn.Close() })
	c := &Channel{conn: conn}
	if now := time.Now(); c.readAt().Before(now) {
		t.Errorf("%s for what came during the handshake, want now", c.readAt())
	}
	served, taken, times := make(chan error, 1), make(chan struct{}), []time.Time{}
	go func() {
		served <- conn.Serve(openflow.Handler{PacketIn: func(*openflow.PacketIn) {
			times = append(times, c.readAt())
			if len(times) == 2 {
				close(taken)
			}
		}})
	}()
	send(t, peer, bytes.Repeat(punttest.Punt(punttest.Segment(t, 7, 0, punttest.SYN, nil)), 2))
	<-taken
	conn.Close()
	<-served
	if !times[0].Equal(times[1]) {
		t.Errorf("two segments of one read have %s and %s", times[0], times[1])
	}
}

// A segment that is not taken is dropped, though it might be resumed: the one who has the
// address would reset the connection.
func TestSegmentIsNotPassed(t *testing.T) {
	wrong := punttest.Segment(t, 7, 0, punttest.SYN, nil)
	wrong[len(wrong)-1]++
	for _, tt := range []struct {
		name   string
		frame  []byte
		knows  bool
		reason string
	}{
		{"a wrong checksum", wrong, true, string(frame.TCPChecksum)},
		{"a guest that nobody knows", punttest.Segment(t, 7, 0, punttest.SYN, nil), false, metric.ReasonOrigin},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, peer := tcpChannel(t)
			if !tt.knows {
				c.intake.bridge.Ports.Set(ports.NewView(vswitch.View{}, c.intake.bridge.Ports.View()))
			}
			are := func() int {
				return int(testkit.Value(t, metric.PacketIns.WithLabelValues(bridgeName, metric.Dropped, tt.reason)))
			}
			before := are()
			if _, err := peer.Write(punttest.ResumablePunt(tt.frame)); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "dropped", func() bool { return are() != before })
		})
	}
}

// A segment is for no chain, so one that comes while chains have no room is dealt with
// all the same: what it carries of queries is turned away by itself.
func TestSegmentOfFullChains(t *testing.T) {
	c, peer := tcpChannel(t)
	full := serve(c.intake, nil, func(c *Config) { c.Concurrent = 1 })
	if reason := full.admission.admit(ofGuest(account{}), 1); reason != "" {
		t.Fatal(reason)
	}
	if _, err := peer.Write(punttest.Punt(punttest.Segment(t, 7, 0, punttest.SYN, nil))); err != nil {
		t.Fatal(err)
	}
	if got := acknowledged(t, peer); got != 8 {
		t.Errorf("%d is acknowledged, want 8", got)
	}
}

// A connection is of the guest that began it: what it still has to say does not get to
// the one that has its OpenFlow port now, whose own has the same addresses and ports.
func TestConnectionOfAnotherPort(t *testing.T) {
	c, peer := tcpChannel(t)
	send := func(sequence uint32) {
		t.Helper()
		if _, err := peer.Write(punttest.Punt(punttest.Segment(t, sequence, 0, punttest.SYN, nil))); err != nil {
			t.Fatal(err)
		}
	}
	send(7)
	if got := acknowledged(t, peer); got != 8 {
		t.Errorf("%d is acknowledged, want 8", got)
	}
	guestIs(c.intake, "2")
	for again := true; again; { // sent to the port's first guest, if a second has passed since
		_, again = segmentTo(t, peer, 100*time.Millisecond)
	}
	if got, ok := segmentTo(t, peer, 2500*time.Millisecond); ok { // it is sent again after a second
		t.Errorf("the port's next guest was sent %x", got.Segment)
	}
	send(100)
	if got := acknowledged(t, peer); got != 101 {
		t.Errorf("%d is acknowledged, want 101", got)
	}
	if n := c.intake.tcp.Connections(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// Of many queries on a connection some are in the chain at a time and the others wait;
// and they count for the limit of the guest like those over UDP.
func TestQueriesOfConnection(t *testing.T) {
	for _, tt := range []struct {
		name            string
		concurrentGuest int
		inChain, turned int
	}{
		{"room for all", 100, 32, 0},
		{"a guest may have less", 8, 8, 42},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, peer := tcpChannel(t)
			var in, all atomic.Int64
			release := make(chan struct{})
			srv := serve(c.intake, func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) {
				in.Add(1)
				defer in.Add(-1)
				all.Add(1)
				<-release
				_ = w.WriteMsg(new(dns.Msg).SetReply(r))
			}, func(c *Config) { c.Concurrent, c.ConcurrentGuest = 1000, tt.concurrentGuest })
			c.intake.done.Go(c.intake.accept)
			const times = 50
			var data []byte
			for range times {
				data = append(binary.BigEndian.AppendUint16(data, uint16(len(punttest.Query))), punttest.Query...)
			}
			turned := func() int {
				return int(testkit.Value(t, metric.TCPQueries.WithLabelValues(bridgeName, metric.Refused, metric.ReasonPortLimit)))
			}
			before := turned()
			next := begin(t, peer)
			if _, err := peer.Write(punttest.Punt(punttest.Segment(t, 8, next, punttest.ACK, data))); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "as many in the chain", func() bool { return int(in.Load()) == tt.inChain && turned()-before == tt.turned })
			time.Sleep(50 * time.Millisecond) // more would be there by then
			if n := int(in.Load()); n != tt.inChain {
				t.Errorf("%d queries in the chain, want %d", n, tt.inChain)
			}
			close(release)
			testkit.Eventually(t, "all of them", func() bool { return int(all.Load()) == times-tt.turned && srv.InFlight() == 0 })
		})
	}
}
