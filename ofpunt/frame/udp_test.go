// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/puntdns/puntdns/ofpunt/frame"
)

var (
	guest4    = netip.MustParseAddrPort("10.0.0.4:40000")
	resolver4 = netip.MustParseAddrPort("169.254.169.254:53")
	guest6    = netip.MustParseAddrPort("[fd00:1::4]:40000")
	resolver6 = netip.MustParseAddrPort("[fd00::254]:53")
)

var byValue = cmpopts.EquateComparable(netip.AddrPort{}, netip.Addr{})

func datagram(src, dst netip.AddrPort, tag frame.Tag, payload []byte) frame.UDP {
	return frame.UDP{Ends: frame.Ends{SrcMAC: guestMAC, DstMAC: resolverMAC, Tag: tag, Src: src, Dst: dst}, Payload: payload}
}

func TestUDP(t *testing.T) {
	udp4 := datagram(guest4, resolver4, frame.Tag{}, query)
	udp6 := datagram(guest6, resolver6, frame.Tag{}, query)
	udp4Tag, udp6Tag := datagram(guest4, resolver4, tag100, query), datagram(guest6, resolver6, tag100, query)
	abc := datagram(guest4, resolver4, frame.Tag{}, []byte("abc"))
	tests := []struct {
		name   string
		frame  []byte
		want   frame.UDP
		answer []byte
		tagged bool
		reply  []byte
	}{
		{"IPv4", udp4Frame, udp4, answer, true, udp4Reply},
		{"IPv4 tagged", udp4Tagged, udp4Tag, answer, true, udp4TaggedReply},
		{"IPv4 tagged, the switch pushes the tag", udp4Tagged, udp4Tag, answer, false, udp4Reply},
		{"IPv4 options", udp4Options, udp4, answer, false, udp4Reply},
		{"IPv4 options up to the end", edited(udp4Options, at(34, 1, 1, 1, 1, 1, 1, 1, 1), sum4), udp4, answer, false, udp4Reply},
		{"odd payload", udp4Odd, abc, []byte("abcde"), false, udp4OddReply},
		{"Ethernet padding", udp4Padded, abc, []byte("abcde"), false, udp4OddReply},
		{"no payload", udp4Empty, datagram(guest4, resolver4, frame.Tag{}, []byte{}), nil, false, udp4EmptyReply},
		{"IPv4 checksum 0 is sent as 0xffff", udp4Frame, udp4, []byte{0x05, 0x64}, false, udp4FFFF},
		{"IPv4 without checksum", edited(udp4Frame, at(40, 0, 0)), udp4, answer, false, udp4Reply},
		// 0a00 + 0004 + a9fe + a9fe + 0011 + 0025, folded.
		{"IPv4 checksum of the pseudo header alone", edited(udp4Frame, at(40, 0x5e, 0x37)), udp4, answer, false, udp4Reply},
		{"IPv4 that must not be fragmented", edited(udp4Frame, at(20, 0x40), sum4), udp4, answer, false, udp4Reply},
		{"UDP shorter than IP", edited(udp4Padded, at(16, 0, 46), sum4), abc, []byte("abcde"), false, udp4OddReply},
		{"priority tag", edited(udp4Tagged, at(14, 0x60, 0)), datagram(guest4, resolver4, frame.Tag{Tagged: true, Priority: 0x6000}, query),
			answer, true, edited(udp4TaggedReply, at(14, 0x60, 0))},
		{"IPv6", udp6Frame, udp6, answer, true, udp6Reply},
		{"IPv6 tagged", udp6Tagged, udp6Tag, answer, true, udp6TaggedReply},
		{"IPv6 tagged, the switch pushes the tag", udp6Tagged, udp6Tag, answer, false, udp6Reply},
		{"IPv6 extension headers", udp6Headers, udp6, answer, false, udp6Reply},
		{"IPv6 padding options of one byte", behind(60, 17, 0, 0, 0, 0, 0, 0, 0), udp6, answer, false, udp6Reply},
		{"IPv6 padding", append(bytes.Clone(udp6Frame), 1, 2, 3), udp6, answer, false, udp6Reply},
		{"IPv6 checksum 0 is sent as 0xffff", udp6Frame, udp6, []byte{0x67, 0x0a}, false, udp6FFFF},
		{"IPv6 as many headers as are taken", withHeaders(8), udp6, answer, false, udp6Reply},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var u frame.UDP
			if err := u.Decode(tt.frame); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, u, byValue); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
			if k := frame.KindOf(tt.frame); k != frame.KindUDP {
				t.Errorf("kind %d, want %d", k, frame.KindUDP)
			}
			// What stands in dst stays, and what its room holds does not matter.
			dst := append(make([]byte, 0, 2048), "before"...)
			for i := range dst[:cap(dst)][len(dst):] {
				dst[:cap(dst)][len(dst)+i] = 0xa5
			}
			got, err := u.AppendDatagram(dst, tt.answer, tt.tagged)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(append([]byte("before"), tt.reply...), got); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
			if &got[0] != &dst[0] {
				t.Error("the reply does not use the room of dst")
			}

			var back frame.UDP
			if err := back.Decode(got[len("before"):]); err != nil {
				t.Fatalf("the reply does not decode: %v", err)
			}
			swapped := frame.UDP{Ends: frame.Ends{SrcMAC: u.DstMAC, DstMAC: u.SrcMAC, Src: u.Dst, Dst: u.Src}, Payload: tt.answer}
			if tt.tagged {
				swapped.Tag = u.Tag
			}
			if diff := cmp.Diff(swapped, back, byValue, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("decoded reply (-want +got):\n%s", diff)
			}
		})
	}
}

// withHeaders is udp6Frame with n empty destination options headers.
func withHeaders(n int) []byte {
	b := bytes.Clone(udp6Frame)
	for range n {
		b = edited(b, insert(54, b[20], 0, 1, 4, 0, 0, 0, 0), at(20, 60))
	}
	return length6(b)
}

// behind is udp6Frame behind an extension header of type next.
func behind(next byte, header ...byte) []byte {
	return edited(udp6Frame, at(20, next), insert(54, header...), length6)
}

func TestUDPRefused(t *testing.T) {
	type row struct {
		name  string
		frame []byte
		want  frame.Refusal
	}
	v4 := func(edits ...edit) []byte { return edited(udp4Frame, append(edits, udp4Sum)...) }
	v6 := func(edits ...edit) []byte { return edited(udp6Frame, append(edits, udp6Sum)...) }
	ip4 := func(edits ...edit) []byte { return edited(udp4Frame, append(edits, sum4)...) }
	option4 := func(v ...byte) []byte { return edited(udp4Options, at(34, v...), sum4) }
	addr6 := func(off int, s string) edit {
		a := netip.MustParseAddr(s).As16()
		return at(off, a[:]...)
	}
	tests := []row{
		{"empty", nil, frame.Truncated},
		{"inside the Ethernet header", udp4Frame[:13], frame.Truncated},
		{"inside the tag", udp4Tagged[:17], frame.Truncated},
		{"inside the IPv4 header", udp4Frame[:33], frame.Truncated},
		{"inside the IPv6 header", udp6Frame[:53], frame.Truncated},
		{"behind the tag", udp4Tagged[:18], frame.Truncated},

		{"from a group MAC", v4(at(6, 0x03)), frame.SourceMAC},
		{"to a group MAC", v4(at(0, 0x03)), frame.DestinationMAC},
		{"to the broadcast MAC", v4(at(0, 255, 255, 255, 255, 255, 255)), frame.DestinationMAC},

		{"two 802.1Q tags", edited(udp4Tagged, insert(12, 0x81, 0, 0, 1)), frame.TwoTags},
		{"802.1ad and 802.1Q tag", edited(udp4Tagged, insert(12, 0x88, 0xa8, 0, 1)), frame.TwoTags},
		{"802.1Q and 802.1ad tag", edited(udp4Tagged, at(16, 0x88, 0xa8)), frame.TwoTags},
		{"a lone 802.1ad tag", edited(udp4Tagged, at(12, 0x88, 0xa8)), frame.EtherType},
		{"802.3 length", edited(udp4Frame, at(12, 0, 57)), frame.EtherType},
		{"ARP", arp, frame.EtherType},
		{"probe", frame.AppendProbe(nil, 1), frame.EtherType},

		{"IPv6 as IPv4", edited(udp6Frame, at(12, 0x08, 0)), frame.IPHeader},
		{"IPv4 as IPv6", edited(udp4Frame, at(12, 0x86, 0xdd)), frame.IPHeader},
		{"IPv4 header of 16 bytes", edited(udp4Frame, at(14, 0x44)), frame.IPHeader},

		{"IPv4 length beyond the frame", ip4(at(16, 0, 58)), frame.IPLength},
		{"IPv4 length in the header", ip4(at(16, 0, 19)), frame.IPLength},
		{"IPv4 length in the options", edited(udp4Options, at(16, 0, 27), sum4), frame.IPLength},
		{"IPv4 header beyond the frame", edited(udp4Frame, at(14, 0x4f), cut(60)), frame.IPLength},
		{"IPv6 length beyond the frame", edited(udp6Frame, at(18, 0, 38)), frame.IPLength},
		{"IPv4 checksum", edited(udp4Frame, at(22, 62)), frame.IPChecksum},

		{"loose source route", option4(131, 7, 4, 10, 0, 0, 9, 0), frame.IPOptions},
		{"strict source route", option4(1, 137, 7, 4, 10, 0, 0, 9), frame.IPOptions},
		{"IPv4 option of length 0", option4(148, 0), frame.IPOptions},
		{"IPv4 option of length 1", option4(148, 1), frame.IPOptions},
		{"IPv4 option beyond the header", option4(148, 9), frame.IPOptions},
		{"IPv4 option without length", option4(1, 1, 1, 1, 1, 1, 1, 148), frame.IPOptions},
		{"IPv6 option beyond the header", behind(0, 17, 0, 1, 5, 0, 0, 0, 0), frame.IPOptions},
		{"IPv6 option without length", behind(60, 17, 0, 1, 3, 0, 0, 0, 1), frame.IPOptions},
		{"IPv6 option that says discard", behind(60, 17, 0, 0x40, 4, 0, 0, 0, 0), frame.IPOptions},
		{"jumbo payload option", behind(0, 17, 0, 0xc2, 4, 0, 1, 0, 0), frame.IPOptions},
		{"home address option", behind(60, 17, 2, 0xc9, 16, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 1, 2, 0, 0), frame.IPOptions},

		{"hop-by-hop behind another header", edited(behind(60, 0, 0, 1, 4, 0, 0, 0, 0), insert(62, 17, 0, 1, 4, 0, 0, 0, 0), length6), frame.ExtensionHeaders},
		{"header cut off", edited(udp6Frame, at(20, 60), cut(61), length6), frame.ExtensionHeaders},
		{"header longer than the packet", behind(60, 17, 254, 1, 4, 0, 0, 0, 0), frame.ExtensionHeaders},
		{"too many headers", withHeaders(9), frame.ExtensionHeaders},
		{"segments left", behind(43, 17, 0, 0, 1, 0, 0, 0, 0), frame.RoutingHeader},

		{"IPv4 first fragment", ip4(at(20, 0x20, 0)), frame.Fragment},
		{"IPv4 later fragment", ip4(at(20, 0, 1)), frame.Fragment},
		{"IPv6 first fragment", behind(44, 17, 0, 0, 1, 0, 0, 0, 7), frame.Fragment},
		{"IPv6 later fragment", behind(44, 17, 0, 0, 8, 0, 0, 0, 7), frame.Fragment},

		{"TCP", ip4(at(23, 6)), frame.Protocol},
		{"TCP in IPv6", edited(udp6Frame, at(20, 6)), frame.Protocol},
		{"no next header", edited(udp6Frame, at(20, 59)), frame.Protocol},
		{"neighbour solicitation", ns, frame.Protocol},

		{"from 0.0.0.0", v4(at(26, 0, 0, 0, 0)), frame.SourceAddress},
		{"from IPv4 loopback", v4(at(26, 127, 1, 2, 3)), frame.SourceAddress},
		{"from IPv4 multicast", v4(at(26, 224, 0, 0, 251)), frame.SourceAddress},
		{"from IPv4 broadcast", v4(at(26, 255, 255, 255, 255)), frame.SourceAddress},
		{"from ::", v6(addr6(22, "::")), frame.SourceAddress},
		{"from ::1", v6(addr6(22, "::1")), frame.SourceAddress},
		{"from IPv6 multicast", v6(addr6(22, "ff02::1")), frame.SourceAddress},
		{"from a mapped address", v6(addr6(22, "::ffff:10.0.0.5")), frame.SourceAddress},
		{"to IPv4 broadcast", v4(at(30, 255, 255, 255, 255)), frame.DestinationAddress},
		{"to IPv4 multicast", v4(at(30, 224, 0, 0, 251)), frame.DestinationAddress},
		{"to IPv4 loopback", v4(at(30, 127, 0, 0, 53)), frame.DestinationAddress},
		{"to IPv6 multicast", v6(addr6(38, "ff02::fb")), frame.DestinationAddress},
		{"to a mapped address", v6(addr6(38, "::ffff:10.0.0.5")), frame.DestinationAddress},

		{"UDP header cut off", edited(udp4Frame, at(16, 0, 27), sum4), frame.UDPLength},
		{"IPv6 without content", edited(udp6Frame, at(18, 0, 0)), frame.UDPLength},
		{"UDP length 0", edited(udp4Frame, at(38, 0, 0)), frame.UDPLength},
		{"UDP length below 8", edited(udp4Frame, at(38, 0, 7)), frame.UDPLength},
		{"UDP length one too long", edited(udp4Frame, at(39, udp4Frame[39]+1)), frame.UDPLength},
		{"UDP length beyond IP", edited(udp4Padded, at(38, 0, 12)), frame.UDPLength},
		{"IPv6 UDP length 0", edited(udp6Frame, at(58, 0, 0)), frame.UDPLength},
		{"IPv6 UDP length below 8", edited(udp6Frame, at(58, 0, 7)), frame.UDPLength},
		{"IPv6 UDP length one too long", edited(udp6Frame, at(59, udp6Frame[59]+1)), frame.UDPLength},
		{"IPv6 UDP length beyond IP", edited(append(bytes.Clone(udp6Frame), 0, 0, 0, 0), at(59, udp6Frame[59]+4)), frame.UDPLength},
		{"IPv6 length within the datagram", edited(udp6Frame, at(19, udp6Frame[19]-1)), frame.UDPLength},
		{"UDP checksum", edited(udp4Frame, at(70, 2)), frame.UDPChecksum},
		{"UDP checksum in IPv6", edited(udp6Frame, at(90, 2)), frame.UDPChecksum},
		{"addresses that the checksum does not cover", edited(udp6Frame, at(37, 5)), frame.UDPChecksum},
		{"no checksum in IPv6", edited(udp6Frame, at(60, 0, 0)), frame.UDPChecksum},
		{"source port 0", v4(at(34, 0, 0)), frame.Port},
		{"IPv6 source port 0", v6(at(54, 0, 0)), frame.Port},
		{"destination port 0", v6(at(56, 0, 0)), frame.Port},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := datagram(guest4, resolver4, tag100, query)
			u := before
			err := u.Decode(tt.frame)
			if !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if diff := cmp.Diff(before, u, byValue); diff != "" {
				t.Errorf("changed by a failed decode (-want +got):\n%s", diff)
			}
		})
	}
}

// Every prefix of a frame is refused, whatever its length.
func TestPrefixes(t *testing.T) {
	for _, b := range [][]byte{udp4Frame, udp4Tagged, udp4Options, udp6Frame, udp6Tagged, udp6Headers} {
		for n := range b {
			var u frame.UDP
			if err := u.Decode(b[:n:n]); err == nil {
				t.Errorf("%d of %d bytes decoded", n, len(b))
			}
			frame.KindOf(b[:n:n])
		}
	}
	for _, b := range [][]byte{arp, arpTagged, ns, nsOption, nsTagged} {
		for n := range b {
			var q frame.Neighbor
			if err := q.Decode(b[:n:n]); err == nil {
				t.Errorf("%d of %d bytes decoded", n, len(b))
			}
		}
	}
}

func TestPayloadCannotGrowIntoFrame(t *testing.T) {
	b := bytes.Clone(udp4Padded)
	var u frame.UDP
	if err := u.Decode(b); err != nil {
		t.Fatal(err)
	}
	_ = append(u.Payload, 0)
	if !bytes.Equal(b, udp4Padded) {
		t.Error("an append to the payload wrote into the frame")
	}
}

func TestAppendReplyErrors(t *testing.T) {
	v4, v6 := datagram(guest4, resolver4, tag100, nil), datagram(guest6, resolver6, tag100, nil)
	mixed := datagram(guest4, resolver6, frame.Tag{}, nil)
	tests := []struct {
		name    string
		u       frame.UDP
		payload int
		want    error
	}{
		{"IPv4 largest", v4, 65507, nil},
		{"IPv4 too long", v4, 65508, frame.ErrPayload},
		{"IPv6 largest", v6, 65527, nil},
		{"IPv6 too long", v6, 65528, frame.ErrPayload},
		{"two families", mixed, 1, frame.ErrAddresses},
		{"not decoded", frame.UDP{}, 1, frame.ErrAddresses},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			payload := bytes.Repeat([]byte{0xff}, tt.payload)
			got, err := tt.u.AppendDatagram([]byte("before"), payload, true)
			if !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if err != nil {
				if string(got) != "before" {
					t.Errorf("%d bytes returned", len(got))
				}
				return
			}
			var back frame.UDP
			if err := back.Decode(got[len("before"):]); err != nil || !bytes.Equal(back.Payload, payload) {
				t.Errorf("reply: %v, %d bytes of payload", err, len(back.Payload))
			}
		})
	}
}

// The checksum of every length of payload agrees with a sum by the book.
func TestChecksumLengths(t *testing.T) {
	payload := make([]byte, 70)
	for i := range payload {
		payload[i] = byte(255 - i*7)
	}
	for _, u := range []frame.UDP{datagram(guest4, resolver4, frame.Tag{}, nil), datagram(guest6, resolver6, frame.Tag{}, nil)} {
		for n := range payload {
			got, err := u.AppendDatagram(nil, payload[:n], false)
			if err != nil {
				t.Fatal(err)
			}
			fix := udp6Sum
			if u.Src.Addr().Is4() {
				fix = udp4Sum
			}
			want := edited(got, fix)
			if !bytes.Equal(want, got) {
				t.Errorf("%v, %d bytes:\nwant %x\ngot  %x", u.Src, n, want, got)
			}
		}
	}
}

func TestNoAllocations(t *testing.T) {
	dst := make([]byte, 0, 2048)
	var u frame.UDP
	var s frame.TCP
	var n frame.Neighbor
	steps := map[string]func(){
		"decode IPv4":  func() { _ = u.Decode(udp4Tagged) },
		"decode IPv6":  func() { _ = u.Decode(udp6Headers) },
		"refuse":       func() { _ = u.Decode(udp4Frame[:40]) },
		"reply":        func() { _ = u.Decode(udp4Frame); _, _ = u.AppendDatagram(dst, answer, true) },
		"reply IPv6":   func() { _ = u.Decode(udp6Frame); _, _ = u.AppendDatagram(dst, answer, true) },
		"segment":      func() { _ = s.Decode(tcp4Tagged); _, _ = s.AppendSegment(dst, synAck, true) },
		"ARP":          func() { _ = n.Decode(arp); _ = n.AppendReply(dst, resolverMAC, true) },
		"solicitation": func() { _ = n.Decode(nsOption); _ = n.AppendReply(dst, resolverMAC, true) },
		"kind":         func() { _ = frame.KindOf(udp6Headers) },
		"probe":        func() { _, _ = frame.ParseProbe(frame.AppendProbe(dst, 7)) },
	}
	for name, step := range steps {
		if got := testing.AllocsPerRun(100, step); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}
