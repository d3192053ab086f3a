// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"errors"
	"testing"
)

// A port of Open vSwitch that goes, and one that comes.
const (
	portGone13 = "040c005000000000" + "0100000000000000" + "00000003000000000a0b0c0d0e0f0000" +
		"7661310000000000000000000000000000000000000000000000000000000000000000000000000000000000" + "00000000"
	portCame15 = "060c005800000000" + "0000000000000000" + "000000040048 0000 0a0b0c0d0e0f 0000" +
		"76613200000000000000000000000000" + "0000000000000000" + "0000002000000000" + "000008400000000000000000000000000098968000000000"
)

func TestDecodePortStatus(t *testing.T) {
	mac := [6]byte{0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f}
	tests := []struct {
		name string
		msg  string
		want PortStatus
		ok   bool
	}{
		{"gone", portGone13, PortStatus{Gone: true, Port: Port{3, mac, "va1", 0}}, true},
		{"came", portCame15, PortStatus{Port: Port{4, mac, "va2", 0}}, true},
		{"modified", "060c005800000000" + "02" + portCame15[18:], PortStatus{Port: Port{4, mac, "va2", 0}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := unhex(t, tt.msg)
			got, ok, err := decodePortStatus(b, Version(b[0]))
			if err != nil || ok != tt.ok || got != tt.want {
				t.Errorf("got %+v, %v, %v, want %+v, %v", got, ok, err, tt.want, tt.ok)
			}
			for n := range b {
				if _, _, err := decodePortStatus(b[:n], Version(b[0])); !errors.Is(err, ErrMalformed) {
					t.Fatalf("%d bytes of it: %v", n, err)
				}
			}
		})
	}
}
