// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"testing"

	"github.com/puntdns/puntdns/ofpunt/frame"
)

func TestProbe(t *testing.T) {
	const token = 0x0123456789abcdef
	want := unhex(`
		0270756e7400 0270756e7400 88b5
		70756e74646e7301 0123456789abcdef
	`)
	got := frame.AppendProbe([]byte("before"), token)
	if !bytes.Equal(got, append([]byte("before"), want...)) {
		t.Fatalf("got %x, want %x", got, want)
	}
	tests := []struct {
		name  string
		frame []byte
		ok    bool
	}{
		{"as sent", want, true},
		{"padded", append(bytes.Clone(want), make([]byte, 30)...), true},
		{"empty", nil, false},
		{"cut off", want[:29], false},
		{"to another", edited(want, at(0, 0xff)), false},
		{"from another", edited(want, at(11, 1)), false},
		{"other EtherType", edited(want, at(13, 0xb6)), false},
		{"somebody else's use of the EtherType", edited(want, at(21, 2)), false},
		{"datagram", udp4Frame, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := frame.ParseProbe(tt.frame)
			if ok != tt.ok || ok && got != token {
				t.Errorf("%#x, %v, want ok %v", got, ok, tt.ok)
			}
		})
	}
}
