// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/ofpunt/frame"
)

func segment(src, dst netip.AddrPort, tag frame.Tag, b []byte) frame.TCP {
	return frame.TCP{Ends: frame.Ends{SrcMAC: guestMAC, DstMAC: resolverMAC, Tag: tag, Src: src, Dst: dst}, Segment: b}
}

func TestTCP(t *testing.T) {
	tests := []struct {
		name   string
		frame  []byte
		want   frame.TCP
		tagged bool
		reply  []byte
	}{
		{"IPv4", tcp4Frame, segment(guest4, resolver4, frame.Tag{}, tcp4Frame[34:]), true, tcp4Reply},
		{"IPv4 tagged", tcp4Tagged, segment(guest4, resolver4, tag100, tcp4Tagged[38:]), true, tcp4TaggedReply},
		{"IPv4 tagged, the switch pushes the tag", tcp4Tagged, segment(guest4, resolver4, tag100, tcp4Tagged[38:]), false, tcp4Reply},
		{"odd length", tcp4Odd, segment(guest4, resolver4, frame.Tag{}, tcp4Odd[34:]), true, tcp4Reply},
		{"Ethernet padding", append(append([]byte{}, tcp4Odd...), 1, 2), segment(guest4, resolver4, frame.Tag{}, tcp4Odd[34:]), true, tcp4Reply},
		// 0a00 + 0004 + a9fe + a9fe + 0006 + 0028, folded.
		{"checksum of the pseudo header alone", edited(tcp4Frame, at(50, 0x5e, 0x2f)),
			segment(guest4, resolver4, frame.Tag{}, edited(tcp4Frame, at(50, 0x5e, 0x2f))[34:]), true, tcp4Reply},
		{"IPv6", tcp6Frame, segment(guest6, resolver6, frame.Tag{}, tcp6Frame[54:]), true, tcp6Reply},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s frame.TCP
			if err := s.Decode(tt.frame); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, s, byValue); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
			if k := frame.KindOf(tt.frame); k != frame.KindTCP {
				t.Errorf("kind %d, want %d", k, frame.KindTCP)
			}
			// The ports and the checksum of the segment are not looked at.
			got, err := s.AppendSegment([]byte("before"), edited(synAck, at(0, 1, 2, 3, 4), at(16, 5, 6)), tt.tagged)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(append([]byte("before"), tt.reply...), got); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTCPRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		frame []byte
		want  frame.Refusal
	}{
		{"a datagram", udp4Frame, frame.Protocol},
		{"a checksum that is wrong", edited(tcp4Frame, at(38, 9)), frame.TCPChecksum},
		{"no checksum", edited(tcp6Frame, at(70, 0, 0)), frame.TCPChecksum},
		{"a header of 16 bytes", edited(tcp4Odd, at(46, 0x40)), frame.TCPLength},
		{"a header longer than the segment", edited(tcp4Odd, at(46, 0x70)), frame.TCPLength},
		{"a segment of 19 bytes", edited(tcp4Odd, at(16, 0, 39), sum4), frame.TCPLength},
		{"a fragment", edited(tcp4Frame, at(20, 0x20), sum4), frame.Fragment},
		{"from a group address", edited(tcp4Frame, at(6, 3)), frame.SourceMAC},
		{"to a group address", edited(tcp4Frame, at(0, 0xff)), frame.DestinationMAC},
		{"from nowhere", edited(tcp4Frame, at(26, 0, 0, 0, 0), sum4, tcp4Sum), frame.SourceAddress},
		{"to all", edited(tcp4Frame, at(30, 255, 255, 255, 255), sum4, tcp4Sum), frame.DestinationAddress},
		{"port 0", edited(tcp4Frame, at(34, 0, 0), tcp4Sum), frame.Port},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := segment(guest4, resolver4, tag100, query)
			s := before
			if err := s.Decode(tt.frame); !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if diff := cmp.Diff(before, s, byValue); diff != "" {
				t.Errorf("changed by a failed decode (-want +got):\n%s", diff)
			}
		})
	}
	for _, b := range [][]byte{tcp4Frame, tcp4Tagged, tcp6Frame} {
		for n := range b {
			var s frame.TCP
			if err := s.Decode(b[:n:n]); err == nil {
				t.Errorf("%d of %d bytes decoded", n, len(b))
			}
		}
	}
}

func TestTCPAppendReplyErrors(t *testing.T) {
	four, six := segment(guest4, resolver4, frame.Tag{}, nil), segment(guest6, resolver6, frame.Tag{}, nil)
	for _, tt := range []struct {
		name    string
		to      frame.TCP
		segment int
		want    error
	}{
		{"the longest in IPv4", four, 65515, nil},
		{"too long for IPv4", four, 65516, frame.ErrPayload},
		{"the longest in IPv6", six, 65535, nil},
		{"too long for IPv6", six, 65536, frame.ErrPayload},
		{"no whole header", four, 19, frame.TCPLength},
		{"not decoded", frame.TCP{}, 20, frame.ErrAddresses},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.to.AppendSegment([]byte("before"), make([]byte, tt.segment), true)
			if !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if err != nil && string(got) != "before" {
				t.Errorf("appended %d bytes beside an error", len(got)-len("before"))
			}
		})
	}
}
