// SPDX-License-Identifier: Apache-2.0

package guests

import (
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
)

func TestRateLimit(t *testing.T) {
	metered := func(rate, burst uint32) *ovn.Network {
		return &ovn.Network{DNSMeter: ovn.Meter{Rate: rate, Burst: burst}}
	}
	service, hijack := Config{Resolvers: defaultResolvers}, Config{}
	tests := []struct {
		name    string
		config  Config
		network *ovn.Network
		want    Rate
	}{
		{"no network", service, nil, Rate{1024, 64}},
		{"no meter", service, &ovn.Network{}, Rate{1024, 64}},
		{"hijack mode", hijack, &ovn.Network{}, Rate{10000, 256}},
		{"the switch's meter", service, metered(500, 70), Rate{500, 70}},
		{"the same in hijack mode", hijack, metered(500, 70), Rate{500, 70}},
		{"a meter without a burst", service, metered(500, 0), Rate{500, 64}},
		{"a slow meter without a burst", service, metered(5, 0), Rate{5, 5}},
		{"a burst that Open vSwitch never fills again", service, metered(5000, 1), Rate{5000, 5}},
		{"a rate that overflows a bucket", service, metered(1<<32-1, 1<<32-1), Rate{1 << 20, 1 << 20}},
		{"the Corefile's", Config{Resolvers: defaultResolvers, RateGiven: true, Rate: Rate{7, 9}}, metered(500, 70), Rate{7, 9}},
		{"the Corefile's in hijack mode", Config{RateGiven: true, Rate: NewRate(7)}, nil, Rate{7, 7}},
		{"off", Config{RateGiven: true}, metered(500, 70), Rate{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.config.rateOf(tt.network); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if got, want := tt.config.Metered(), tt.want != (Rate{}); got != want {
				t.Errorf("metered: %v, want %v", got, want)
			}
		})
	}
}
