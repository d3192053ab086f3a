// SPDX-License-Identifier: Apache-2.0

package light_test

import (
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/puntdns/puntdns/ofpunt/tcp/light"
)

// FuzzReceive has whatever segments, responses and times come, six bytes each. What is sent has to be
// of the stream that there is, and a connection is handed over only while that can go on.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{byte(header.TCPFlagAck), 1, 1, 255, 0, 0, byte(header.TCPFlagAck | header.TCPFlagPsh), 1, 1, 255, 5, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2,
		byte(header.TCPFlagAck | header.TCPFlagFin), 6, 7, 255, 0, 0, byte(header.TCPFlagAck), 7, 8, 255, 0, 0}, []byte{2, 4, 5, 0xb4})
	f.Add([]byte{byte(header.TCPFlagAck | header.TCPFlagFin), 1, 1, 0, 9, 0, 0, 0, 0, 200, 0, 3, byte(header.TCPFlagRst), 11, 0, 0, 0, 0}, []byte{3, 3, 200, 1})
	f.Add([]byte{byte(header.TCPFlagUrg | header.TCPFlagAck), 1, 1, 255, 0, 0}, []byte{4, 2, 8, 10})
	f.Fuzz(func(t *testing.T, script, options []byte) {
		for len(options)%4 != 0 {
			options = append(options, 0)
		}
		if len(options) > 40 {
			return
		}
		now := time.Unix(1, 0)
		last := segment(header.TCPFlagSyn, 0, 0, 1000, options, "")
		conn, step := light.Open(last, serverFirst, now)
		sent, heard := uint32(1), uint32(1) // the next numbers of ours, and of the client as far as it has sent some
		asked, responded, done, over := false, false, false, false
		check := func(step light.Step) {
			t.Helper()
			if s := step.Send; s.Flags != 0 {
				b := header.TCP(s.Append(nil))
				if len(b) < header.TCPMinimumSize || int(b.DataOffset()) > len(b) || len(b.Payload()) > light.MSS {
					t.Fatalf("a segment % x", b)
				}
				end := b.SequenceNumber() - serverFirst + uint32(len(b.Payload()))
				if b.Flags()&(header.TCPFlagSyn|header.TCPFlagFin) != 0 {
					end++
				}
				if b.Flags() != header.TCPFlagRst && int32(end-sent) > 0 {
					sent = end
				}
				if acked := b.AckNumber() - clientFirst; b.Flags()&header.TCPFlagAck != 0 && int32(acked-heard) > 0 {
					t.Fatalf("%d is acknowledged, the client has sent up to %d", acked, heard)
				}
				if sent > 3+2*light.MSS {
					t.Fatalf("%d bytes were sent", sent)
				}
			}
			switch step.Do {
			case light.HandOver:
				if h := conn.HandOver(); !conn.IsEstablished() || int32(h.Next-clientFirst-heard) > 0 || int32(h.Unacknowledged-serverFirst-sent) > 0 {
					t.Fatalf("handed over as %+v, the client has sent up to %d and we up to %d", h, heard, sent)
				}
				over = true
			case light.End:
				over = true
			}
		}
		check(step)
		for ; len(script) >= 6 && !over; script = script[6:] {
			switch {
			case script[0] != 0:
				text := make([]byte, int(script[4])+int(script[5]&7)<<8)
				flags := header.TCPFlags(script[0])
				last = segment(flags, uint32(int32(int8(script[1])))+heard&^127, uint32(int32(int8(script[2]))), uint16(script[3])<<8, nil, string(text))
				length := uint32(len(text))
				for _, f := range []header.TCPFlags{header.TCPFlagSyn, header.TCPFlagFin} {
					if flags&f != 0 {
						length++
					}
				}
				if end := last.SequenceNumber() - clientFirst + length; int32(end-heard) > 0 {
					heard = end
				}
				step := conn.Receive(last, now)
				check(step)
				if step.Do == light.Request {
					if asked {
						t.Fatal("two requests")
					}
					asked = true
					conn.Take(last, now)
				}
			case script[5] == 1 && asked: // behind done, too
				step := conn.Respond(make([]byte, int(script[4])*8), now)
				if step.Send.Flags != 0 && responded {
					t.Fatal("two responses")
				}
				responded = true
				check(step)
			case script[5] == 2 && asked && !done:
				done = true
				check(conn.Done(now))
			default:
				now = now.Add(time.Duration(script[3]) * 10 * time.Millisecond)
				check(conn.Tick(now))
			}
		}
	})
}
