// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"testing"

	"github.com/puntdns/puntdns/ofpunt/frame"
)

var benchFrames = []struct {
	name  string
	frame []byte
}{
	{"IPv4", udp4Frame}, {"IPv4Tagged", udp4Tagged}, {"IPv6", udp6Frame}, {"IPv6Headers", udp6Headers},
}

func BenchmarkDecode(b *testing.B) {
	for _, bb := range benchFrames {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			var u frame.UDP
			for b.Loop() {
				if err := u.Decode(bb.frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendReply(b *testing.B) {
	for _, bb := range benchFrames {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			var u frame.UDP
			if err := u.Decode(bb.frame); err != nil {
				b.Fatal(err)
			}
			dst := make([]byte, 0, 2048)
			for b.Loop() {
				if _, err := u.AppendDatagram(dst, answer, true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkKindOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if frame.KindOf(udp4Frame) != frame.KindUDP {
			b.Fatal("kind")
		}
	}
}

func BenchmarkNeighbor(b *testing.B) {
	for _, bb := range []struct {
		name  string
		frame []byte
	}{{"ARP", arp}, {"ND", nsOption}} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]byte, 0, 256)
			var n frame.Neighbor
			for b.Loop() {
				if err := n.Decode(bb.frame); err != nil {
					b.Fatal(err)
				}
				dst = n.AppendReply(dst[:0], resolverMAC, true)
			}
		})
	}
}
