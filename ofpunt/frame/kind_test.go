// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"testing"

	"github.com/puntdns/puntdns/ofpunt/frame"
)

func TestKindOf(t *testing.T) {
	tests := []struct {
		name  string
		frame []byte
		want  frame.Kind
	}{
		{"empty", nil, frame.KindOther},
		{"UDP with a wrong checksum", edited(udp4Frame, at(70, 2)), frame.KindUDP},
		{"UDP fragment", edited(udp4Frame, at(20, 0x20, 0), sum4), frame.KindUDP},
		{"TCP", edited(udp4Frame, at(23, 6), sum4), frame.KindTCP},
		{"TCP in IPv6", edited(udp6Frame, at(20, 6)), frame.KindTCP},
		{"TCP behind a header", behind(60, 6, 0, 1, 4, 0, 0, 0, 0), frame.KindTCP},
		{"ICMP", edited(udp4Frame, at(23, 1), sum4), frame.KindOther},
		{"ICMPv6 in IPv4", edited(udp4Frame, at(23, 58), sum4), frame.KindOther},
		{"SCTP in IPv6", edited(udp6Frame, at(20, 132)), frame.KindOther},
		{"IPv6 fragment", behind(44, 17, 0, 0, 1, 0, 0, 0, 7), frame.KindOther},
		{"ICMPv6 tagged", nsTagged, frame.KindICMPv6},
		{"ARP tagged", arpTagged, frame.KindARP},
		{"ARP reply", arpReply, frame.KindARP},
		{"probe", frame.AppendProbe(nil, 1), frame.KindProbe},
		{"two tags", edited(udp4Tagged, insert(12, 0x81, 0, 0, 1)), frame.KindOther},
		{"IPv4 header cut off", udp4Frame[:33], frame.KindOther},
		{"IPv6 header cut off", udp6Frame[:53], frame.KindOther},
		{"LLDP", edited(udp4Frame, at(12, 0x88, 0xcc)), frame.KindOther},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := frame.KindOf(tt.frame); got != tt.want {
				t.Errorf("kind %d, want %d", got, tt.want)
			}
		})
	}
}
