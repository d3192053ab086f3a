// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"net/netip"
	"testing"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

func TestAsked(t *testing.T) {
	const (
		rewritten = openflow.CTTracked | openflow.CTNew | openflow.CTDstNAT
		reply     = openflow.CTTracked | openflow.CTEstablished | openflow.CTReply | openflow.CTDstNAT
	)
	tuple := func(state uint32, proto uint8, dst string) openflow.CTTuple {
		a := netip.MustParseAddrPort(dst)
		return openflow.CTTuple{State: state, Proto: proto, Dst: a.Addr(), Port: a.Port()}
	}
	const vip = 0x0a60000a // 10.96.0.10
	tests := []struct {
		name string
		ct   openflow.CTTuple
		regs [16]uint32
		dst  string
		want string
	}{
		{"no load balancer", openflow.CTTuple{}, [16]uint32{0: 0x287, 13: 2, 14: 2}, "10.0.0.12:53", "10.0.0.12:53"},
		{"the first packet", tuple(rewritten, 17, "10.96.0.10:53"), [16]uint32{}, "10.0.0.12:5353", "10.96.0.10:53"},
		{"the first packet, IPv6", tuple(rewritten, 17, "[fd00:96::10]:53"), [16]uint32{}, "[fd00:10::12]:5353", "[fd00:96::10]:53"},
		{"another protocol", tuple(rewritten, 6, "10.96.0.10:53"), [16]uint32{}, "10.0.0.12:5353", "10.0.0.12:5353"},
		{"another family", tuple(rewritten, 17, "[fd00:96::10]:53"), [16]uint32{}, "10.0.0.12:5353", "10.0.0.12:5353"},
		// The guest's own server answers: the tuple belongs to its client.
		{"a reply", tuple(reply, 17, "10.0.0.12:53"), [16]uint32{}, "10.0.0.11:40000", "10.0.0.11:40000"},
		{"an error about it", tuple(rewritten|openflow.CTRelated, 17, "10.96.0.10:53"), [16]uint32{}, "10.0.0.12:53", "10.0.0.12:53"},
		{"only the source rewritten", tuple(openflow.CTTracked|openflow.CTEstablished|openflow.CTSrcNAT, 17, "10.0.0.12:53"), [16]uint32{}, "10.0.0.12:53", "10.0.0.12:53"},
		{"committed once more", openflow.CTTuple{}, [16]uint32{1: vip, 2: 53}, "10.0.0.12:5353", "10.96.0.10:53"},
		{"with the backend that it is bound to", openflow.CTTuple{}, [16]uint32{1: vip, 2: 53, 4: 0x0a00000c, 8: 5353}, "10.0.0.12:5353", "10.96.0.10:53"},
		{"a newer release", openflow.CTTuple{}, [16]uint32{1: 0x00110035, 2: 0x70035, 4: vip}, "10.0.0.12:5353", "10.96.0.10:53"},
		{"a newer release without a load balancer", openflow.CTTuple{}, [16]uint32{1: 0x00110035, 2: 0x70000}, "10.0.0.12:53", "10.0.0.12:53"},
		{"no port", openflow.CTTuple{}, [16]uint32{1: vip}, "10.0.0.12:53", "10.96.0.10:53"},
		{"committed once more, IPv6", openflow.CTTuple{}, [16]uint32{2: 53, 4: 0xfd000096, 7: 0x10}, "[fd00:10::12]:5353", "[fd00:96::10]:53"},
		{"no port, IPv6", openflow.CTTuple{}, [16]uint32{4: 0xfd000096, 7: 0x10}, "[fd00:10::12]:53", "[fd00:96::10]:53"},
		{"a tunnel's port, IPv6", openflow.CTTuple{}, [16]uint32{5: 0x30000}, "[fd00:10::12]:53", "[fd00:10::12]:53"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := openflow.PacketIn{CT: tt.ct, Regs: tt.regs}
			if got := placement.Asked(&p, placement.ProtoUDP, netip.MustParseAddrPort(tt.dst)); got.String() != tt.want {
				t.Errorf("asked %s, want %s", got, tt.want)
			}
		})
	}
}
