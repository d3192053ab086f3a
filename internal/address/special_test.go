// SPDX-License-Identifier: Apache-2.0

package address

import (
	"net/netip"
	"strings"
	"testing"
)

func TestKinds(t *testing.T) {
	for _, tt := range []struct {
		addresses       string
		special, global bool
	}{
		{"0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 127.0.0.1 127.255.255.255", true, false},
		{"169.254.0.0 169.254.169.254 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255 198.18.0.1", true, false},
		{"192.0.0.192 168.63.129.16 192.88.99.1 224.0.0.1 240.0.0.1 255.255.255.255", true, false},
		{":: ::1 ::2 ::10.0.0.1 fc00:: fd00::254 fdff::1 fe80::1 febf:: fec0::1 ff02::1", true, false},
		{"::ffff:10.0.0.1 64:ff9b::a00:1 64:ff9b::7f00:1 64:ff9b:1::a00:1 2002:a00:1::1 2001::1 100::1 100:0:0:1::1 5f00::1", true, false},
		{"192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1 ::ffff:192.0.2.1 64:ff9b::909:909", false, false},
		{"1.0.0.0 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 128.0.0.0 169.255.0.0 172.15.255.255 172.32.0.0", false, true},
		{"192.0.1.1 192.169.0.0 168.63.129.17 198.20.0.1 2001:4860:4860::8888 2600::1 ::ffff:9.9.9.9", false, true},
	} {
		for text := range strings.FieldsSeq(tt.addresses) {
			a := netip.MustParseAddr(text)
			if IsSpecial(a) != tt.special || IsGlobal(a) != tt.global {
				t.Errorf("%s: special %v, global %v, want %v, %v", text, IsSpecial(a), IsGlobal(a), tt.special, tt.global)
			}
		}
	}
}

func TestDestination(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "64:ff9b::c000:201": "192.0.2.1",
		"64:ff9b:1::c000:201": "64:ff9b:1::c000:201", "2001:db8::1": "2001:db8::1",
	} {
		if got := Destination(netip.MustParseAddr(text)); got != netip.MustParseAddr(want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
