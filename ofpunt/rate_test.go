// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"testing"

	"github.com/coredns/caddy"

	"github.com/puntdns/puntdns/internal/ovn"
)

// The Corefile comes before the switch's own meter, and that before the default.
func TestLimit(t *testing.T) {
	metered := func(rate, burst uint32) *ovn.Network {
		return &ovn.Network{DNSMeter: ovn.Meter{Rate: rate, Burst: burst}}
	}
	tests := []struct {
		name, properties string
		network          *ovn.Network
		want             limit
	}{
		{"no network", "", nil, limit{1024, 64}},
		{"no meter", "", &ovn.Network{}, limit{1024, 64}},
		{"hijack mode", "address any", &ovn.Network{}, limit{10000, 256}},
		{"the switch's meter", "", metered(500, 70), limit{500, 70}},
		{"the same in hijack mode", "address any", metered(500, 70), limit{500, 70}},
		{"a meter without a burst", "", metered(500, 0), limit{500, 64}},
		{"a slow meter without a burst", "", metered(5, 0), limit{5, 5}},
		{"a burst that Open vSwitch never fills again", "", metered(5000, 1), limit{5000, 5}},
		{"a rate that overflows a bucket", "", metered(1<<32-1, 1<<32-1), limit{1 << 20, 1 << 20}},
		{"the Corefile's", "rate 7 9", metered(500, 70), limit{7, 9}},
		{"the Corefile's in hijack mode", "address any\n rate 7", nil, limit{7, 7}},
		{"off", "rate off", metered(500, 70), limit{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := parseBlock(caddy.NewTestController("dns", "ofpunt br-int {\n "+tt.properties+"\n}"))
			if err != nil {
				t.Fatal(err)
			}
			if got := b.options.limit(tt.network); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if got, want := b.options.limits(), tt.want != (limit{}); got != want {
				t.Errorf("limits: %v, want %v", got, want)
			}
		})
	}
}
