// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// connection is one to a switch that has shaken hands, and its other end. Each write
// of either end arrives as one message.
func connection(t testing.TB) (conn *openflow.Conn, peer net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		ends[i], err = net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	peer = ends[1]
	t.Cleanup(func() { peer.Close() })
	go shakeHands(peer)
	conn, err = openflow.NewConn(t.Context(), ends[0], openflow.Options{EchoInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return conn, peer
}

// readerSession is the bridge of pairSession. slow is called before each packet-in.
func readerSession(t *testing.T, slow func()) (b *bridge, peer net.Conn) {
	s, peer := pairSession(t, slow)
	return s.bridge, peer
}

// pairSession is a session whose queries the reader may do, and the other end of its
// connection. before is called before each packet-in. The punts are of guests that
// nobody knows, which get an error.
func pairSession(t testing.TB, before func()) (s *session, peer net.Conn) {
	t.Helper()
	return pairSessionOf(t, before, nil)
}

// pairSessionOf is pairSession of a bridge that ends TCP by stack.
func pairSessionOf(t testing.TB, before func(), stack *tcp.Stack) (s *session, peer net.Conn) {
	t.Helper()
	conn, peer := connection(t)
	o := defaultOptions("br-reader")
	o.Placement = placement.Neutron
	b := &bridge{name: o.Bridge, tally: newTally(o.Bridge), workers: newWorkers(), tcp: stack, gone: map[uint32]tombstone{}}
	b.current.Store(&server{options: o, fromMemory: true, admission: newAdmission(4096)})
	s, err := newSession(b, conn, 1, &o)
	if err != nil {
		t.Fatal(err)
	}
	h := s.handler()
	punted := h.PacketIn
	h.PacketIn = func(p *openflow.PacketIn, msg []byte) { before(); punted(p, msg) }
	served := make(chan error, 1)
	go func() { served <- conn.Serve(h) }()
	t.Cleanup(func() {
		conn.Close()
		<-served
		b.workers.end()
	})
	return s, peer
}

// message is one of OpenFlow 1.5.
func message(typ uint8, xid uint32, body []byte) []byte {
	m := binary.BigEndian.AppendUint16([]byte{6, typ}, uint16(8+len(body)))
	return append(binary.BigEndian.AppendUint32(m, xid), body...)
}

// each calls f with the messages that stand in b.
func each(b []byte, f func(typ uint8, xid uint32)) {
	for len(b) >= 8 {
		f(b[1], binary.BigEndian.Uint32(b[4:]))
		b = b[binary.BigEndian.Uint16(b[2:]):]
	}
}

// shakeHands is the switch's part until the barrier that ends it.
func shakeHands(nc net.Conn) {
	const hello, featuresRequest, configRequest, barrier = 0, 5, 7, 20
	for b, done := make([]byte, 1<<16), false; !done; {
		n, err := nc.Read(b)
		if err != nil {
			return
		}
		each(b[:n], func(typ uint8, xid uint32) {
			switch typ {
			case hello:
				nc.Write(message(hello, 1, nil))
			case featuresRequest:
				nc.Write(message(featuresRequest+1, xid, make([]byte, 24)))
			case configRequest:
				nc.Write(message(configRequest+1, xid, make([]byte, 4)))
			case barrier:
				nc.Write(message(barrier+1, xid, nil))
				done = true
			}
		})
	}
}

// puntOf is an NXT_PACKET_IN2 with a frame from in_port 5 (nicira-ext.h).
func puntOf(frame []byte) []byte { return message(4, 0, puntBody(frame)) }

// puntBody is that of a packet-in which is not paused.
func puntBody(frame []byte) []byte {
	property := func(b []byte, typ uint16, value []byte) []byte {
		b = binary.BigEndian.AppendUint16(b, typ)
		b = binary.BigEndian.AppendUint16(b, uint16(4+len(value)))
		b = append(b, value...)
		return append(b, make([]byte, (-len(value)-4)&7)...)
	}
	body := []byte{0, 0, 0x23, 0x20, 0, 0, 0, 30}
	body = property(body, 0, frame)
	body = property(body, 6, []byte{0x80, 0, 0, 4, 0, 0, 0, 5})
	return property(body, 7, userData)
}

// queryFrame asks a resolver address for a name.
func queryFrame() []byte {
	b := []byte{2, 0, 'd', 'n', 's', 0x35, 2, 0, 0, 0, 0, 0x11, 8, 0} // Ethernet
	b = append(b, 0x45, 0, 0, byte(28+len(query1)), 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 11, 169, 254, 169, 254)
	sum := uint32(0)
	for i := 14; i < 34; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(b[24:], ^uint16(sum>>16+sum))
	b = append(b, 0x13, 0x88, 0, 53, 0, byte(8+len(query1)), 0, 0) // UDP without a checksum
	return append(b, query1...)
}

// answerIn is the datagram that a packet-out of OpenFlow 1.5 brings the guest.
func answerIn(t testing.TB, m []byte) (u frame.UDP) {
	t.Helper()
	const packetOut, actionsLen, actions = 13, 12, 32
	if len(m) < actions || m[1] != packetOut || int(binary.BigEndian.Uint16(m[2:])) != len(m) {
		t.Fatalf("no packet-out: %x", m)
	}
	if err := u.Decode(m[actions+binary.BigEndian.Uint16(m[actionsLen:]):]); err != nil {
		t.Fatalf("%v: %x", err, m)
	}
	return u
}

// answers reads so many messages and returns the number of writes that they came by.
func answers(t *testing.T, peer net.Conn, n int) (writes int) {
	t.Helper()
	_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
	for b := make([]byte, 1<<18); n > 0; writes++ {
		k, err := peer.Read(b)
		if err != nil {
			t.Fatalf("%v, %d answers are missing", err, n)
		}
		each(b[:k], func(uint8, uint32) { n-- })
	}
	return writes
}

// What is read at once is answered at once, as long as that takes no time to speak of.
func TestReaderAnswersTogether(t *testing.T) {
	const n = 5
	for range 100 { // on a busy machine the reader may be kept from it for a while
		b, peer := readerSession(t, func() {})
		if _, err := peer.Write(bytes.Repeat(puntOf(queryFrame()), n)); err != nil {
			t.Fatal(err)
		}
		if answers(t, peer, n) == 1 && b.workers.waiting.Load() == 0 {
			return
		}
	}
	t.Errorf("%d queries were never answered by one write and without a worker", n)
}

// A reader that has been busy for some time leaves the rest of what it has read to
// workers.
func TestReaderIsRelieved(t *testing.T) {
	b, peer := readerSession(t, func() { time.Sleep(2 * readerTime) })
	if _, err := peer.Write(puntOf(queryFrame())); err != nil {
		t.Fatal(err)
	}
	answers(t, peer, 1)
	for deadline := time.Now().Add(20 * time.Second); b.workers.waiting.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no worker has done anything")
		}
	}
}
