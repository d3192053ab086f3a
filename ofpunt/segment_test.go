// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
	dto "github.com/prometheus/client_model/go"

	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// tcpSession is a session of a bridge that ends TCP, with one guest at in_port 5, and
// the switch's end of its connection.
func tcpSession(t *testing.T) (s *session, peer net.Conn) {
	t.Helper()
	stack, err := tcp.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stack.Close)
	s, peer = pairSessionOf(t, func() {}, stack)
	s.bridge.conn.Store(s.conn)
	guestIs(s.bridge, "1")
	return s, peer
}

// guestIs has the local database say that the row with that UUID has in_port 5, and
// the switch that nothing is on its way that came before.
func guestIs(b *bridge, uuid string) {
	v := newLocalView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: uuid, Name: "tap", OFPort: 5, IfaceID: "port-" + uuid}}}, b.view.Load())
	v.settled.Store(true)
	b.view.Store(v)
}

// guestFrame has a segment of a guest with the flags.
func guestFrame(t *testing.T, sequence, ack uint32, flags byte, payload []byte) []byte {
	t.Helper()
	turned := frame.Ends{
		SrcMAC: resolverMAC, DstMAC: [6]byte{2, 0, 0, 0, 0, 0x11},
		Src: netip.MustParseAddrPort("169.254.169.254:53"), Dst: netip.MustParseAddrPort("10.0.0.11:5000"),
	}
	s := binary.BigEndian.AppendUint32(make([]byte, 4), sequence)
	s = append(binary.BigEndian.AppendUint32(s, ack), 5<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
	f, err := turned.AppendSegment(nil, append(s, payload...), true)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Flags of TCP.
const (
	syn = 2
	rst = 4
	ack = 0x10
)

func synFrame(t *testing.T, sequence uint32) []byte { return guestFrame(t, sequence, 0, syn, nil) }

// begin shakes hands for a guest and returns what its next segment acknowledges; its
// sequence number is 8.
func begin(t *testing.T, peer net.Conn) (next uint32) {
	t.Helper()
	if _, err := peer.Write(puntOf(synFrame(t, 7))); err != nil {
		t.Fatal(err)
	}
	s, ok := segmentTo(t, peer, 20*time.Second)
	if !ok || s.Segment[13] != syn|ack {
		t.Fatalf("no SYN-ACK: %x", s.Segment)
	}
	return binary.BigEndian.Uint32(s.Segment[4:]) + 1
}

// segmentTo is the next segment to the guest, or false after a time.
func segmentTo(t *testing.T, peer net.Conn, patience time.Duration) (s frame.TCP, ok bool) {
	t.Helper()
	const actionsLen, actions = 12, 32
	_ = peer.SetReadDeadline(time.Now().Add(patience))
	m := make([]byte, 1<<16)
	n, err := peer.Read(m)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return s, false
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Decode(m[actions+int(binary.BigEndian.Uint16(m[actionsLen:])) : binary.BigEndian.Uint16(m[2:])]); err != nil {
		t.Fatalf("%v: %x, %d bytes", err, m[:n], n)
	}
	return s, true
}

// acknowledged is what the SYN-ACK acknowledges that has to come.
func acknowledged(t *testing.T, peer net.Conn) uint32 {
	t.Helper()
	s, ok := segmentTo(t, peer, 20*time.Second)
	if !ok || s.Segment[13] != syn|ack {
		t.Fatalf("no SYN-ACK: %x", s.Segment)
	}
	return binary.BigEndian.Uint32(s.Segment[8:])
}

// A segment that is not taken goes no further, though the switch holds it: the one who
// has the address would reset the connection.
func TestSegmentIsNotPassed(t *testing.T) {
	continuation := []byte{0, 8, 0, 8, 1, 2, 3, 4}
	wrong := synFrame(t, 7)
	wrong[len(wrong)-1]++
	for _, tt := range []struct {
		name   string
		frame  []byte
		knows  bool
		reason string
	}{
		{"a wrong checksum", wrong, true, string(frame.TCPChecksum)},
		{"a guest that nobody knows", synFrame(t, 7), false, reasonOrigin},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, peer := tcpSession(t)
			if !tt.knows {
				s.bridge.view.Store(newLocalView(vswitch.View{}, s.bridge.view.Load()))
			}
			are := func() int {
				var m dto.Metric
				if err := punts.WithLabelValues(s.bridge.name, dropped, tt.reason).Write(&m); err != nil {
					t.Fatal(err)
				}
				return int(m.Counter.GetValue())
			}
			before := are()
			if _, err := peer.Write(message(4, 0, append(puntBody(tt.frame), continuation...))); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(20 * time.Second); are() == before; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("it has not been dropped")
				}
			}
		})
	}
}

// A segment is for no chain, so one that comes while chains have no room is dealt with
// all the same: what it carries of queries is turned away by itself.
func TestSegmentOfFullChains(t *testing.T) {
	s, peer := tcpSession(t)
	b := s.bridge
	full := &server{options: b.current.Load().options, fromMemory: true, admission: newAdmission(1)}
	b.current.Store(full)
	if reason := full.admission.admit(&query{}, 1); reason != "" {
		t.Fatal(reason)
	}
	if _, err := peer.Write(puntOf(synFrame(t, 7))); err != nil {
		t.Fatal(err)
	}
	if got := acknowledged(t, peer); got != 8 {
		t.Errorf("%d is acknowledged, want 8", got)
	}
}

// A connection is of the guest that began it: what it still has to say does not get to
// the one that has its OpenFlow port now, whose own has the same addresses and ports.
func TestConnectionOfAnotherPort(t *testing.T) {
	s, peer := tcpSession(t)
	send := func(sequence uint32) {
		t.Helper()
		if _, err := peer.Write(puntOf(synFrame(t, sequence))); err != nil {
			t.Fatal(err)
		}
	}
	send(7)
	if got := acknowledged(t, peer); got != 8 {
		t.Errorf("%d is acknowledged, want 8", got)
	}
	guestIs(s.bridge, "2")
	if got, ok := segmentTo(t, peer, 2500*time.Millisecond); ok { // it is sent again after a second
		t.Errorf("the port's next guest was sent %x", got.Segment)
	}
	send(100)
	if got := acknowledged(t, peer); got != 101 {
		t.Errorf("%d is acknowledged, want 101", got)
	}
	if n := s.bridge.tcp.Connections(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// The resets of the connections that end with a bridge are out before that to the
// switch ends.
func TestConnectionsEndWithBridge(t *testing.T) {
	for range 20 {
		s, peer := tcpSession(t)
		b := s.bridge
		next := begin(t, peer)
		if _, err := peer.Write(puntOf(guestFrame(t, 8, next, ack, nil))); err != nil {
			t.Fatal(err)
		}
		if _, err := b.tcp.Accept(); err != nil {
			t.Fatal(err)
		}
		b.ctx, b.cancel = t.Context(), func() { s.conn.Close() }
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			b.close()
			b.workers = newWorkers() // whose end the session's is, too
		}()
		resets := 0
		for m := make([]byte, 1<<16); ; {
			_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
			n, err := peer.Read(m)
			if err != nil || n == 0 {
				break
			}
			for rest := m[:n]; len(rest) >= 8; rest = rest[binary.BigEndian.Uint16(rest[2:]):] {
				const packetOut, barrier, actionsLen, actions = 13, 20, 12, 32
				switch rest[1] {
				case packetOut:
					var s frame.TCP
					if err := s.Decode(rest[actions+int(binary.BigEndian.Uint16(rest[actionsLen:])) : binary.BigEndian.Uint16(rest[2:])]); err == nil && s.Segment[13]&rst != 0 {
						resets++
					}
				case barrier:
					if _, err := peer.Write(message(barrier+1, binary.BigEndian.Uint32(rest[4:]), nil)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		<-closed
		if resets != 1 {
			t.Errorf("%d resets, want 1", resets)
		}
	}
}

// Of many queries on a connection some are in the chain at a time and the others wait;
// and they count for the limit of the guest like those over UDP.
func TestQueriesOfConnection(t *testing.T) {
	for _, tt := range []struct {
		name            string
		perGuest        int
		inChain, turned int
	}{
		{"room for all", 100, 32, 0},
		{"a guest may have less", 8, 8, 42},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, peer := tcpSession(t)
			b := s.bridge
			b.ctx = t.Context()
			var in, all atomic.Int64
			release := make(chan struct{})
			c := &dnsserver.Config{Zone: "."}
			c.AddPlugin(func(plugin.Handler) plugin.Handler {
				return plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
					in.Add(1)
					defer in.Add(-1)
					all.Add(1)
					<-release
					return dns.RcodeSuccess, w.WriteMsg(new(dns.Msg).SetReply(r))
				})
			})
			o := b.current.Load().options
			o.ConcurrentPort = tt.perGuest
			srv := &server{options: o, admission: newAdmission(1000)}
			var err error
			if srv.dns, err = dnsserver.NewServer("test", []*dnsserver.Config{c}); err != nil {
				t.Fatal(err)
			}
			b.current.Store(srv)
			accepted := make(chan struct{})
			go func() { defer close(accepted); b.acceptStreams() }()
			const times = 50
			var data []byte
			for range times {
				data = append(binary.BigEndian.AppendUint16(data, uint16(len(query1))), query1...)
			}
			turned := func() int {
				var m dto.Metric
				if err := streamQueries.WithLabelValues(b.name, refused, reasonPortLimit).Write(&m); err != nil {
					t.Fatal(err)
				}
				return int(m.Counter.GetValue())
			}
			before := turned()
			await := func(what string, done func() bool) {
				t.Helper()
				for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("not %s: %d in the chain, %d have been there, %d turned away", what, in.Load(), all.Load(), turned()-before)
					}
				}
			}
			next := begin(t, peer)
			if _, err := peer.Write(puntOf(guestFrame(t, 8, next, ack, data))); err != nil {
				t.Fatal(err)
			}
			await("as many in the chain", func() bool { return int(in.Load()) == tt.inChain && turned()-before == tt.turned })
			time.Sleep(50 * time.Millisecond) // more would be there by then
			if n := int(in.Load()); n != tt.inChain {
				t.Errorf("%d queries in the chain, want %d", n, tt.inChain)
			}
			close(release)
			await("all of them", func() bool { return int(all.Load()) == times-tt.turned && srv.admission.count.Load() == 0 })
			b.tcp.Close()
			<-accepted
			b.done.Wait()
		})
	}
}
