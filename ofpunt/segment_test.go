// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

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

// synFrame is the SYN of a guest, with the sequence number.
func synFrame(t *testing.T, sequence uint32) []byte {
	t.Helper()
	turned := frame.Ends{
		SrcMAC: resolverMAC, DstMAC: [6]byte{2, 0, 0, 0, 0, 0x11},
		Src: netip.MustParseAddrPort("169.254.169.254:53"), Dst: netip.MustParseAddrPort("10.0.0.11:5000"),
	}
	s := binary.BigEndian.AppendUint32(make([]byte, 4), sequence)
	f, err := turned.AppendSegment(nil, append(s, 0, 0, 0, 0, 5<<4, 2, 0xff, 0xff, 0, 0, 0, 0), true)
	if err != nil {
		t.Fatal(err)
	}
	return f
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
	const synAck = 0x12
	if !ok || s.Segment[13] != synAck {
		t.Fatalf("no SYN-ACK: %x", s.Segment)
	}
	return binary.BigEndian.Uint32(s.Segment[8:])
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
		if _, err := peer.Write(puntOf(synFrame(t, 7))); err != nil {
			t.Fatal(err)
		}
		const sequence, ack = 4, 0x10
		f := synFrame(t, 8)
		f[47] = ack
		syn, _ := segmentTo(t, peer, 20*time.Second)
		binary.BigEndian.PutUint32(f[42:], binary.BigEndian.Uint32(syn.Segment[sequence:])+1)
		binary.BigEndian.PutUint16(f[50:], pseudoSum(f))
		if _, err := peer.Write(puntOf(f)); err != nil {
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
					if err := s.Decode(rest[actions+int(binary.BigEndian.Uint16(rest[actionsLen:])) : binary.BigEndian.Uint16(rest[2:])]); err == nil && s.Segment[13]&4 != 0 {
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

// pseudoSum is the checksum of the pseudo header of a segment in IPv4 without options,
// which is taken for right.
func pseudoSum(f []byte) uint16 {
	sum := uint32(6 + len(f) - 34)
	for i := 26; i < 34; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(f[i:]))
	}
	sum = sum>>16 + sum&0xffff
	return uint16(sum>>16 + sum)
}
