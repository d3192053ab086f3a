// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/puntdns/puntdns/ofpunt/frame"
)

func TestAnnouncement(t *testing.T) {
	for _, tt := range []struct {
		name string
		tag  frame.Tag
		want []byte
	}{
		{"untagged", frame.Tag{}, announcement},
		{"tagged", tag100, announcementTagged},
		{"a tag that is not used", frame.Tag{VLAN: 100}, announcement},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// The room behind dst has other frames from before.
			dst := append(bytes.Repeat([]byte{0xaa}, 100)[:0], "before"...)
			got := frame.AppendAnnouncement(dst, resolverMAC, tt.tag)
			if want := append([]byte("before"), tt.want...); !bytes.Equal(got, want) {
				t.Errorf("got %x, want %x", got, want)
			}
		})
	}
}

// An announcement comes from its MAC address, and no decoder takes it for a question.
func FuzzAnnouncement(f *testing.F) {
	f.Add(resolverMAC[:], uint16(0), false)
	f.Add(resolverMAC[:], uint16(0xb064), true)
	f.Fuzz(func(t *testing.T, address []byte, tci uint16, tagged bool) {
		var mac [6]byte
		copy(mac[:], address)
		b := frame.AppendAnnouncement(nil, mac, frame.Tag{Tagged: tagged, VLAN: tci & 0xfff, Priority: tci & 0xf000})
		if got, ok := frame.SenderMAC(b); !ok || got != mac {
			t.Errorf("it comes from %x, want %x", got, mac)
		}
		if kind := frame.KindOf(b); kind != frame.KindOther {
			t.Errorf("it is of kind %d", kind)
		}
		var n frame.Neighbor
		want := frame.EtherType
		if mac[0]&1 != 0 {
			want = frame.SourceMAC
		}
		if err := n.Decode(b); !errors.Is(err, want) {
			t.Errorf("decoded: %v, want %v", err, want)
		}
		// As ARP it would be a question for no address.
		if tagged {
			b = append(b[:12], b[16:]...)
		}
		b = edited(b, at(12, 0x08, 0x06), at(20, 0, 1))
		want = frame.AddressProbe
		if mac[0]&1 != 0 {
			want = frame.SourceMAC
		}
		if err := n.Decode(b); !errors.Is(err, want) {
			t.Errorf("decoded as ARP: %v, want %v", err, want)
		}
	})
}
