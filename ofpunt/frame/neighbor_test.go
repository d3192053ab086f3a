// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/ofpunt/frame"
)

func question(kind frame.Kind, mac [6]byte, tag frame.Tag) frame.Neighbor {
	n := frame.Neighbor{SrcMAC: mac, Tag: tag, Sender: guest4.Addr(), Target: resolver4.Addr(), Kind: kind}
	if kind == frame.KindICMPv6 {
		n.Sender, n.Target = guest6.Addr(), resolver6.Addr()
	}
	return n
}

func TestNeighbor(t *testing.T) {
	third := [6]byte{0x02, 0, 0, 0, 0, 0x0c}
	option := func(v ...byte) []byte { return edited(ns, insert(78, v...), length6, icmpSum) }
	tests := []struct {
		name   string
		frame  []byte
		want   frame.Neighbor
		tagged bool
		reply  []byte
	}{
		{"ARP", arp, question(frame.KindARP, guestMAC, frame.Tag{}), true, arpReply},
		{"ARP tagged", arpTagged, question(frame.KindARP, guestMAC, tag100), true, arpTaggedReply},
		{"ARP tagged, the switch pushes the tag", arpTagged, question(frame.KindARP, guestMAC, tag100), false, arpReply},
		{"ARP padded", append(edited(arp), make([]byte, 18)...), question(frame.KindARP, guestMAC, frame.Tag{}), true, arpReply},
		{"ARP in unicast", edited(arp, at(0, resolverMAC[:]...)), question(frame.KindARP, guestMAC, frame.Tag{}), true, arpReply},
		{"ARP for another MAC than the frame's", edited(arp, at(6, third[:]...)), question(frame.KindARP, guestMAC, frame.Tag{}), true, arpReply},
		{"solicitation", ns, question(frame.KindICMPv6, guestMAC, frame.Tag{}), true, nsReply},
		{"solicitation padded", append(edited(ns), 1, 2, 3), question(frame.KindICMPv6, guestMAC, frame.Tag{}), true, nsReply},
		{"solicitation with the asker's MAC", nsOption, question(frame.KindICMPv6, third, frame.Tag{}), true, nsOptionReply},
		{"solicitation tagged", nsTagged, question(frame.KindICMPv6, guestMAC, tag100), true, nsTaggedReply},
		{"solicitation tagged, the switch pushes the tag", nsTagged, question(frame.KindICMPv6, guestMAC, tag100), false, nsReply},
		{"unknown option first", option(14, 1, 1, 2, 3, 4, 5, 6, 1, 1, 2, 0, 0, 0, 0, 0x0c), question(frame.KindICMPv6, third, frame.Tag{}), true, nsOptionReply},
		{"the first of two addresses", option(1, 1, 2, 0, 0, 0, 0, 0x0c, 1, 1, 2, 0, 0, 0, 0, 0x0d), question(frame.KindICMPv6, third, frame.Tag{}), true, nsOptionReply},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var n frame.Neighbor
			if err := n.Decode(tt.frame); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, n, byValue); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
			if k := frame.KindOf(tt.frame); k != tt.want.Kind {
				t.Errorf("kind %d, want %d", k, tt.want.Kind)
			}
			got := n.AppendReply([]byte("before"), resolverMAC, tt.tagged)
			if diff := cmp.Diff(append([]byte("before"), tt.reply...), got); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNeighborRefused(t *testing.T) {
	six := func(edits ...edit) []byte { return edited(ns, append(edits, icmpSum)...) }
	option := func(v ...byte) []byte { return edited(ns, insert(78, v...), length6, icmpSum) }
	put := func(off int, s string) edit {
		a := netip.MustParseAddr(s).As16()
		return at(off, a[:]...)
	}
	tests := []struct {
		name  string
		frame []byte
		want  frame.Refusal
	}{
		{"empty", nil, frame.Truncated},
		{"ARP cut off", arp[:41], frame.Truncated},
		{"two tags", edited(arpTagged, insert(12, 0x81, 0, 0, 1)), frame.TwoTags},
		{"IPv4", udp4Frame, frame.EtherType},
		{"frame from a group", edited(arp, at(6, 0x01)), frame.SourceMAC},
		{"ARP from a group", edited(arp, at(22, 0x01)), frame.SourceMAC},
		{"solicitation from a group", edited(nsOption, at(80, 0x03), icmpSum), frame.SourceMAC},

		{"ARP hardware type", edited(arp, at(15, 6)), frame.ARPFormat},
		{"ARP protocol type", edited(arp, at(16, 0x86, 0xdd)), frame.ARPFormat},
		{"ARP hardware length", edited(arp, at(18, 8)), frame.ARPFormat},
		{"ARP protocol length", edited(arp, at(19, 16)), frame.ARPFormat},
		{"ARP reply", arpReply, frame.ARPOperation},
		{"ARP operation 0", edited(arp, at(20, 0, 0)), frame.ARPOperation},
		{"ARP probe", edited(arp, at(28, 0, 0, 0, 0)), frame.AddressProbe},
		{"ARP announcement", edited(arp, at(38, 10, 0, 0, 4)), frame.Gratuitous},
		{"ARP from multicast", edited(arp, at(28, 224, 0, 0, 1)), frame.SourceAddress},
		{"ARP from broadcast", edited(arp, at(28, 255, 255, 255, 255)), frame.SourceAddress},
		{"ARP from loopback", edited(arp, at(28, 127, 0, 0, 1)), frame.SourceAddress},
		{"ARP for multicast", edited(arp, at(38, 224, 0, 0, 1)), frame.TargetAddress},
		{"ARP for 0.0.0.0", edited(arp, at(38, 0, 0, 0, 0)), frame.TargetAddress},

		{"IPv6 header cut off", ns[:53], frame.Truncated},
		{"IPv6 length", edited(ns, at(18, 0, 25)), frame.IPLength},
		{"UDP", udp6Frame, frame.Protocol},
		{"atomic fragment", edited(ns, at(20, 44), insert(54, 58, 0, 0, 0, 0, 0, 0, 7), length6), frame.Fragment},
		{"advertisement", nsReply, frame.ICMPType},
		{"echo request", six(at(54, 128)), frame.ICMPType},
		{"forwarded", six(at(21, 254)), frame.HopLimit},
		{"checksum", edited(ns, at(77, 0x55)), frame.ICMPChecksum},
		{"code", six(at(55, 1)), frame.NDFormat},
		{"header cut off", edited(ns, cut(57), length6), frame.NDFormat},
		{"target cut off", edited(ns, cut(77), length6, icmpSum), frame.NDFormat},
		{"option of length 0", option(1, 0, 2, 0, 0, 0, 0, 0x0c), frame.NDFormat},
		{"option cut off", option(1, 1, 2, 0, 0, 0, 0), frame.NDFormat},
		{"option without length", option(1), frame.NDFormat},
		{"address of another length", option(1, 2, 2, 0, 0, 0, 0, 0x0c, 0, 0, 0, 0, 0, 0, 0, 0), frame.NDFormat},
		{"duplicate address detection", six(put(22, "::")), frame.AddressProbe},
		{"from multicast", six(put(22, "ff02::1")), frame.SourceAddress},
		{"from a mapped address", six(put(22, "::ffff:10.0.0.4")), frame.SourceAddress},
		{"for the asker itself", six(put(62, "fd00:1::4")), frame.Gratuitous},
		{"for multicast", six(put(62, "ff02::1:ff00:254")), frame.TargetAddress},
		{"for ::", six(put(62, "::")), frame.TargetAddress},
		{"for a mapped address", six(put(62, "::ffff:10.0.0.5")), frame.TargetAddress},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := question(frame.KindARP, guestMAC, tag100)
			n := before
			if err := n.Decode(tt.frame); !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if diff := cmp.Diff(before, n, byValue); diff != "" {
				t.Errorf("changed by a failed decode (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNeighborReplyWithoutQuestion(t *testing.T) {
	for _, n := range []frame.Neighbor{{}, {Sender: guest4.Addr()}, {Sender: guest4.Addr(), Target: resolver6.Addr()}} {
		if got := n.AppendReply([]byte("before"), resolverMAC, true); string(got) != "before" {
			t.Errorf("%+v gave %x", n, got)
		}
	}
}
