// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"testing"

	"github.com/coredns/caddy"

	"github.com/puntdns/puntdns/internal/ovn"
)

// The Corefile comes before the switch's own meter, and that before the default.
func TestRateLimit(t *testing.T) {
	metered := func(rate, burst uint32) *ovn.Network {
		return &ovn.Network{DNSMeter: ovn.Meter{Rate: rate, Burst: burst}}
	}
	tests := []struct {
		name, properties string
		network          *ovn.Network
		want             rateLimit
	}{
		{"no network", "", nil, rateLimit{1024, 64}},
		{"no meter", "", &ovn.Network{}, rateLimit{1024, 64}},
		{"hijack mode", "address any", &ovn.Network{}, rateLimit{10000, 256}},
		{"the switch's meter", "", metered(500, 70), rateLimit{500, 70}},
		{"the same in hijack mode", "address any", metered(500, 70), rateLimit{500, 70}},
		{"a meter without a burst", "", metered(500, 0), rateLimit{500, 64}},
		{"a slow meter without a burst", "", metered(5, 0), rateLimit{5, 5}},
		{"a burst that Open vSwitch never fills again", "", metered(5000, 1), rateLimit{5000, 5}},
		{"a rate that overflows a bucket", "", metered(1<<32-1, 1<<32-1), rateLimit{1 << 20, 1 << 20}},
		{"the Corefile's", "rate 7 9", metered(500, 70), rateLimit{7, 9}},
		{"the Corefile's in hijack mode", "address any\n rate 7", nil, rateLimit{7, 7}},
		{"off", "rate off", metered(500, 70), rateLimit{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := parseBlock(caddy.NewTestController("dns", "ofpunt br-int {\n "+tt.properties+"\n}"))
			if err != nil {
				t.Fatal(err)
			}
			if got := b.options.rate(tt.network); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if got, want := b.options.metered(), tt.want != (rateLimit{}); got != want {
				t.Errorf("metered: %v, want %v", got, want)
			}
		})
	}
}
