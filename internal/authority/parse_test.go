// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"fmt"
	"testing"

	"github.com/puntdns/puntdns/internal/testkit/golden"
)

// What the properties of all plugins with names refuse.
func TestPropertiesRefuse(t *testing.T) {
	for _, tt := range []struct {
		name, property string
		words          []string
	}{
		{"domain without words", "domain", nil},
		{"domain that is none", "domain", []string{"a..b"}},
		{"domain that is the root", "domain", []string{"."}},
		{"ttl without words", "ttl", nil},
		{"ttl below 0", "ttl", []string{"-1"}},
		{"ttl with a unit", "ttl", []string{"30s"}},
		{"ttl too large", "ttl", []string{"2147483648"}},
		{"fallthrough of a bad zone", "fallthrough", []string{"a..b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := new(Policy).Properties()[tt.property](tt.words)
			if err == nil {
				t.Fatal("taken")
			}
			golden.Check(t, err.Error())
		})
	}
}

func TestZonesRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		words []string
	}{
		{"no zone", nil},
		{"a bad zone behind another", []string{"red.test", "a..b"}},
		{"a network that is none", []string{"10.0.0.0/8", "10.0.0.0/33"}},
		{"a wildcard", []string{"*.red.test"}},
		{"a port", []string{"red.test:53"}},
		{"a URL", []string{"https://red.test/"}},
		{"a bracket", []string{"["}},
		{"an address", []string{"10.0.0.1"}},
		{"an IPv6 address", []string{"fd00::1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var zones []string
			err := ZonesParser(&zones, "names", nil)(tt.words)
			if err == nil {
				t.Fatalf("taken: %q", zones)
			}
			golden.Check(t, err.Error())
		})
	}
}

func TestZones(t *testing.T) {
	for word, want := range map[string]string{
		"Red.test": "[red.test.]", ".": "[.]", "10.0.0.0/16": "[0.10.in-addr.arpa.]", "10.0.0.0/15": "[0.10.in-addr.arpa. 1.10.in-addr.arpa.]",
		"2001:db8::/32":             "[8.b.d.0.1.0.0.2.ip6.arpa.]",
		"0/25.2.0.192.in-addr.arpa": "[0/25.2.0.192.in-addr.arpa.]", // RFC 2317
		"_tcp.red.test.":            "[_tcp.red.test.]",
	} {
		zones, err := Zones(word)
		if got := fmt.Sprint(zones); err != nil || got != want {
			t.Errorf("%s: %s, %v", word, got, err)
		}
	}
}
