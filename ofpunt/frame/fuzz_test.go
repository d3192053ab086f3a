// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/puntdns/puntdns/ofpunt/frame"
)

var allFrames = [][]byte{
	udp4Frame, udp4Tagged, udp4Options, udp4Odd, udp4Padded, udp4Empty, udp4FFFF,
	udp6Frame, udp6Tagged, udp6Headers, udp6FFFF,
	tcp4Frame, tcp4Reply, tcp4Tagged, tcp4Odd, tcp6Frame,
	arp, arpTagged, ns, nsOption, nsTagged, arpReply, nsReply, announcement, announcementTagged,
}

// listed fails unless err is one of the refusals that a metric has labels for.
func listed(t *testing.T, err error) {
	t.Helper()
	var r frame.Refusal
	if !errors.As(err, &r) || !slices.Contains(frame.Refusals(), r) {
		t.Fatalf("error %v is not listed", err)
	}
}

// repaired is an untagged frame with checksums that let a decoder go on to what
// stands behind them, which random changes hardly ever do.
func repaired(b []byte) []byte {
	switch {
	case len(b) >= 54+8 && b[12] == 0x86 && b[13] == 0xdd && b[20] == 17:
		return edited(b, length6, udp6Sum)
	case len(b) >= 54+20 && b[12] == 0x86 && b[13] == 0xdd && b[20] == 6:
		return edited(b, length6, tcp6Sum)
	case len(b) >= 54+4 && b[12] == 0x86 && b[13] == 0xdd && b[20] == 58:
		return edited(b, length6, icmpSum)
	case len(b) >= 34 && b[12] == 0x08 && b[13] == 0:
		header := 14 + int(b[14]&0xf)*4
		if header < 34 || header+8 > len(b) {
			return b
		}
		if total := int(b[16])<<8 + int(b[17]); b[23] == 6 && header == 34 && total >= 40 && 14+total <= len(b) {
			return edited(b, tcp4Sum)
		}
		return edited(b, sum4, at(header+6, 0, 0))
	}
	return b
}

// Whatever decodes gives a reply that decodes again with its ends swapped.
func FuzzUDP(f *testing.F) {
	for _, b := range allFrames {
		f.Add(b, answer, true, false)
		f.Add(b, []byte{}, false, true)
	}
	f.Fuzz(func(t *testing.T, b, payload []byte, tagged, repair bool) {
		if repair {
			b = repaired(b)
		}
		frozen := bytes.Clone(b)
		kind := frame.KindOf(b)
		var u frame.UDP
		if err := u.Decode(b); err != nil {
			listed(t, err)
			return
		}
		if kind != frame.KindUDP {
			t.Fatalf("a datagram of kind %d", kind)
		}
		reply, err := u.AppendDatagram(nil, payload, tagged)
		if err != nil {
			if errors.Is(err, frame.ErrPayload) && len(payload) > 65507 {
				return
			}
			t.Fatal(err)
		}
		var back frame.UDP
		if err := back.Decode(reply); err != nil {
			t.Fatalf("reply %x: %v", reply, err)
		}
		want := frame.Tag{}
		if tagged {
			want = u.Tag
		}
		if back.SrcMAC != u.DstMAC || back.DstMAC != u.SrcMAC || back.Src != u.Dst || back.Dst != u.Src ||
			back.Tag != want || !bytes.Equal(back.Payload, payload) {
			t.Fatalf("%+v answered by %+v", u, back)
		}
		if !bytes.Equal(b, frozen) {
			t.Fatal("the frame was changed")
		}
	})
}

// FuzzTCP is FuzzUDP for segments.
func FuzzTCP(f *testing.F) {
	for _, b := range allFrames {
		f.Add(b, synAck, true, false)
		f.Add(b, []byte{}, false, true)
	}
	f.Fuzz(func(t *testing.T, b, answer []byte, tagged, repair bool) {
		if repair {
			b = repaired(b)
		}
		frozen := bytes.Clone(b)
		kind := frame.KindOf(b)
		var s frame.TCP
		if err := s.Decode(b); err != nil {
			listed(t, err)
			return
		}
		if kind != frame.KindTCP {
			t.Fatalf("a segment of kind %d", kind)
		}
		reply, err := s.AppendSegment(nil, answer, tagged)
		if err != nil {
			if errors.Is(err, frame.ErrPayload) && len(answer) > 65515 || errors.Is(err, frame.TCPLength) && len(answer) < 20 {
				return
			}
			t.Fatal(err)
		}
		var back frame.TCP
		if err := back.Decode(reply); err != nil {
			if errors.Is(err, frame.TCPLength) && (answer[12]>>4 < 5 || int(answer[12]>>4)*4 > len(answer)) {
				return // so it was given
			}
			t.Fatalf("reply %x: %v", reply, err)
		}
		want := frame.Tag{}
		if tagged {
			want = s.Tag
		}
		if back.SrcMAC != s.DstMAC || back.DstMAC != s.SrcMAC || back.Src != s.Dst || back.Dst != s.Src ||
			back.Tag != want || !bytes.Equal(back.Segment[4:16], answer[4:16]) || !bytes.Equal(back.Segment[18:], answer[18:]) {
			t.Fatalf("%+v answered by %+v", s, back)
		}
		if !bytes.Equal(b, frozen) {
			t.Fatal("the frame was changed")
		}
	})
}

// Whatever decodes gives a reply which, asked back, decodes with its ends
// swapped.
func FuzzNeighbor(f *testing.F) {
	for _, b := range allFrames {
		f.Add(b, true, false)
		f.Add(b, false, true)
	}
	f.Fuzz(func(t *testing.T, b []byte, tagged, repair bool) {
		if repair {
			b = repaired(b)
		}
		var n frame.Neighbor
		if err := n.Decode(b); err != nil {
			listed(t, err)
			return
		}
		if kind := frame.KindOf(b); kind != n.Kind {
			t.Fatalf("kind %d, decoded as %d", kind, n.Kind)
		}
		reply := n.AppendReply(nil, resolverMAC, tagged && n.Tagged)
		if tagged && n.Tagged {
			var back frame.Neighbor
			if err := back.Decode(reply); !errors.Is(err, frame.ARPOperation) && !errors.Is(err, frame.ICMPType) {
				t.Fatalf("tagged reply %x: %v", reply, err)
			}
			reply = slices.Delete(reply, 12, 16)
		}
		back := askBack(t, n, reply)
		if back.Sender != n.Target || back.SrcMAC != resolverMAC || [6]byte(reply) != n.SrcMAC {
			t.Fatalf("%+v answered by %x", n, reply)
		}
	})
}

// askBack turns an untagged reply into a question for the node that it was
// sent to.
func askBack(t *testing.T, n frame.Neighbor, reply []byte) frame.Neighbor {
	t.Helper()
	var back frame.Neighbor
	if n.Kind == frame.KindARP {
		if reply[21] != 2 {
			t.Fatalf("operation %d", reply[21])
		}
		reply[21] = 1
	} else {
		if want := edited(reply, icmpSum); !bytes.Equal(want, reply) {
			t.Fatalf("checksum: want %x, got %x", want, reply)
		}
		if target := n.Target.As16(); !bytes.Equal(reply[62:78], target[:]) {
			t.Fatalf("target %x, want %x", reply[62:78], target)
		}
		sender := n.Sender.As16()
		reply = edited(reply, at(54, 135), at(62, sender[:]...), at(78, 1), icmpSum)
	}
	if err := back.Decode(reply); err != nil {
		t.Fatalf("%x: %v", reply, err)
	}
	if back.Target != n.Sender {
		t.Fatalf("sent to %v, want %v", back.Target, n.Sender)
	}
	return back
}

func FuzzProbe(f *testing.F) {
	f.Add(frame.AppendProbe(nil, 1))
	f.Add(udp4Frame)
	f.Fuzz(func(t *testing.T, b []byte) {
		token, ok := frame.ParseProbe(b)
		if ok && !bytes.HasPrefix(b, frame.AppendProbe(nil, token)) {
			t.Fatalf("%x taken for a probe", b)
		}
		if ok && frame.KindOf(b) != frame.KindProbe {
			t.Fatal("a probe of another kind")
		}
	})
}
