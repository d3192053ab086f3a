// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

func TestCloseResetsConnections(t *testing.T) {
	for range 20 {
		s, peer := pairSession(t, func() {})
		b := s.bridge
		v := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: "1", Name: "tap", OFPort: 5, IfaceID: "port-1"}}}, nil)
		v.SetDrained()
		b.ports.Set(v)
		room := make([]byte, 1<<16)
		_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
		// segment returns the next segment with the flags, or with data if 0.
		segment := func(flags byte) []byte {
			t.Helper()
			for {
				n, err := peer.Read(room)
				if err != nil {
					t.Fatal(err)
				}
				s, err := punttest.SegmentIn(room[:n])
				if err != nil {
					t.Fatal(err)
				}
				if flags != 0 && s.Segment[13]&flags == flags || flags == 0 && len(s.Segment) > 20 {
					return s.Segment
				}
			}
		}
		send := func(sequence, ack uint32, flags byte, data []byte) {
			t.Helper()
			if _, err := peer.Write(punttest.Punt(punttest.Segment(t, sequence, ack, flags, data))); err != nil {
				t.Fatal(err)
			}
		}
		send(7, 0, punttest.SYN, nil)
		next := binary.BigEndian.Uint32(segment(punttest.SYN | punttest.ACK)[4:]) + 1
		// The refusal of this NOTIFY shows that the connection is accepted.
		query := []byte(punttest.Query)
		query[2] |= 4 << 3
		send(8, next, punttest.ACK, append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...))
		segment(0)

		b.ctx, b.cancel = t.Context(), func() { s.conn.Close() }
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			b.close()
			b.punts = punt.NewIntake(b.puntBridge()) // the session's cleanup closes it
		}()
		resets := 0
		for m := room; ; {
			_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
			n, err := peer.Read(m)
			if err != nil || n == 0 {
				break
			}
			for rest := m[:n]; len(rest) >= 8; rest = rest[binary.BigEndian.Uint16(rest[2:]):] {
				const packetOut, barrier = 13, 20
				switch rest[1] {
				case packetOut:
					if s, err := punttest.SegmentIn(rest); err == nil && s.Segment[13]&punttest.RST != 0 {
						resets++
					}
				case barrier:
					if _, err := peer.Write(punttest.Message(barrier+1, binary.BigEndian.Uint32(rest[4:]), nil)); err != nil {
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
