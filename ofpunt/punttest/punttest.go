// SPDX-License-Identifier: Apache-2.0

// Package punttest plays the switch at the other end of an OpenFlow connection, for tests of
// what takes packet-ins. It knows messages and frames, and decides nothing.
package punttest

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Query is the DNS message of QueryFrame: "a. A IN" with RD, the id 0x1234.
const Query = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"

// Connect returns a connection whose handshake is done, and the switch's end of it. Each write
// of either end arrives as one message.
func Connect(t testing.TB) (conn *openflow.Conn, peer net.Conn) {
	t.Helper()
	return ConnectYielding(t, nil)
}

// ConnectYielding is Connect with the Yield of openflow.Options.
func ConnectYielding(t testing.TB, yield func()) (conn *openflow.Conn, peer net.Conn) {
	t.Helper()
	end, peer := testkit.Pair(t, syscall.SOCK_SEQPACKET)
	go ShakeHands(peer)
	conn, err := openflow.NewConn(t.Context(), end, openflow.Options{EchoInterval: time.Hour, Yield: yield})
	if err != nil {
		t.Fatal(err)
	}
	return conn, peer
}

// Message returns a message of OpenFlow 1.5.
func Message(typ uint8, xid uint32, body []byte) []byte {
	m := binary.BigEndian.AppendUint16([]byte{6, typ}, uint16(8+len(body)))
	return append(binary.BigEndian.AppendUint32(m, xid), body...)
}

// Each calls f for each message in b.
func Each(b []byte, f func(typ uint8, xid uint32)) {
	for len(b) >= 8 {
		f(b[1], binary.BigEndian.Uint32(b[4:]))
		b = b[binary.BigEndian.Uint16(b[2:]):]
	}
}

// ShakeHands plays the switch until the barrier that ends the handshake.
func ShakeHands(nc net.Conn) {
	const hello, featuresRequest, configRequest, barrier = 0, 5, 7, 20
	for b, done := make([]byte, 1<<16), false; !done; {
		n, err := nc.Read(b)
		if err != nil {
			return
		}
		Each(b[:n], func(typ uint8, xid uint32) {
			var reply []byte
			switch typ {
			case hello:
				reply = Message(hello, 1, nil)
			case featuresRequest:
				reply = Message(featuresRequest+1, xid, make([]byte, 24))
			case configRequest:
				reply = Message(configRequest+1, xid, make([]byte, 4))
			case barrier:
				reply = Message(barrier+1, xid, nil)
				done = true
			default:
				return
			}
			_, _ = nc.Write(reply) // a connection that is gone has no handshake
		})
	}
}

// Punt returns an NXT_PACKET_IN2 with a frame from in_port 5 (nicira-ext.h).
func Punt(frame []byte) []byte { return packetIn(frame, "puntdns\x01") }

// OVNPunt is Punt in OVN's pipeline, by the tunnel keys of the datapath and of the logical port below 256.
func OVNPunt(frame []byte, datapath, port byte) []byte {
	metadata, register14 := []byte{0x80, 0, 2 << 1, 8, 0, 0, 0, 0, 0, 0, 0, datapath}, []byte{0, 1, 14 << 1, 4, 0, 0, 0, port}
	return packetIn(frame, "puntdns\x01", metadata, register14)
}

// ResumablePunt is Punt of a frame that goes on in table 30 when it is resumed.
func ResumablePunt(frame []byte) []byte { return packetIn(frame, "puntdns\x01\x1e") }

func packetIn(frame []byte, userData string, fields ...[]byte) []byte {
	property := func(b []byte, typ uint16, value []byte) []byte {
		b = binary.BigEndian.AppendUint16(b, typ)
		b = binary.BigEndian.AppendUint16(b, uint16(4+len(value)))
		b = append(b, value...)
		return append(b, make([]byte, (-len(value)-4)&7)...)
	}
	body := []byte{0, 0, 0x23, 0x20, 0, 0, 0, 30}
	body = property(body, 0, frame)
	body = property(body, 6, append([]byte{0x80, 0, 0, 4, 0, 0, 0, 5}, bytes.Join(fields, nil)...))
	return Message(4, 0, property(body, 7, []byte(userData)))
}

// QueryFrame returns a frame with Query, from 10.0.0.11 to the resolver address.
func QueryFrame() []byte {
	b := []byte{2, 0, 'd', 'n', 's', 0x35, 2, 0, 0, 0, 0, 0x11, 8, 0} // Ethernet
	b = append(b, 0x45, 0, 0, byte(28+len(Query)), 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 11, 169, 254, 169, 254)
	sum := uint32(0)
	for i := 14; i < 34; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(b[24:], ^uint16(sum>>16+sum))
	b = append(b, 0x13, 0x88, 0, 53, 0, byte(8+len(Query)), 0, 0) // UDP without a checksum
	return append(b, Query...)
}

// AnswerIn returns the datagram in a packet-out of OpenFlow 1.5.
func AnswerIn(t testing.TB, m []byte) (u frame.UDP) {
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

// Flags of TCP.
const (
	FIN = 1
	SYN = 2
	RST = 4
	ACK = 0x10
)

// Segment returns a frame with a segment of the guest to the resolver address, from its port 5000.
func Segment(t testing.TB, sequence, ack uint32, flags byte, payload []byte) []byte {
	t.Helper()
	return SegmentFrom(t, 5000, sequence, ack, flags, payload)
}

// SegmentFrom is Segment from another port.
func SegmentFrom(t testing.TB, port uint16, sequence, ack uint32, flags byte, payload []byte) []byte {
	t.Helper()
	toGuest := frame.Ends{
		SrcMAC: [6]byte{2, 0, 'd', 'n', 's', 0x35}, DstMAC: [6]byte{2, 0, 0, 0, 0, 0x11},
		Src: netip.MustParseAddrPort("169.254.169.254:53"), Dst: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.11"), port),
	}
	s := binary.BigEndian.AppendUint32(make([]byte, 4), sequence)
	s = append(binary.BigEndian.AppendUint32(s, ack), 5<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
	f, err := toGuest.AppendSegment(nil, append(s, payload...), true)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// SegmentIn returns the segment in a packet-out.
func SegmentIn(m []byte) (s frame.TCP, err error) {
	const actionsLen, actions = 12, 32
	err = s.Decode(m[actions+int(binary.BigEndian.Uint16(m[actionsLen:])) : binary.BigEndian.Uint16(m[2:])])
	return s, err
}
