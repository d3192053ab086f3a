// SPDX-License-Identifier: Apache-2.0

package guests

import (
	"testing"

	"github.com/puntdns/puntdns/internal/ovn/ovntest"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

func rated(label, value string, rate uint32) Limit {
	return Limit{Name: label + "=" + value, Label: label, Value: value, RateGiven: true, Rate: Rate{rate, rate}}
}

func TestLimitWithoutRate(t *testing.T) {
	limits := []Limit{{Label: "ofpunt/port", Value: "vm1", Connections: 9}, rated("ofpunt/switch", "red", 7)}
	view := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{
		{Name: "tap1", OFPort: 1, IfaceID: "vm1", NetworkID: "red"}, {Name: "tap2", OFPort: 2, IfaceID: "vm2", NetworkID: "red"},
	}}, nil)
	rules := NewRules(Config{Placement: placement.Table, RateGiven: true, Rate: Rate{100, 50}, Limits: limits})
	for i, got := range At(rules, nil, view).List().Served {
		want := []Served{{Rate: Rate{100, 50}}, {Rate: Rate{7, 7}, Limit: &rules.Limits[1]}}[i]
		if got.Rate != want.Rate || got.Limit != want.Limit {
			t.Errorf("vm%d: %+v, want %+v", i+1, got, want)
		}
	}
	for name, tt := range map[string]struct {
		c    Config
		want bool
	}{
		"no limit on the rate": {Config{RateGiven: true, Limits: limits[:1]}, false},
		"one by a label":       {Config{RateGiven: true, Limits: limits}, true},
		"the default":          {Config{Limits: []Limit{{RateGiven: true}}}, true},
	} {
		if got := tt.c.Metered(); got != tt.want {
			t.Errorf("%s: metered %v, want %v", name, got, tt.want)
		}
	}
}

// A limit overrides the Corefile's fail.
func TestFailsClosed(t *testing.T) {
	view := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{
		{Name: "tap1", OFPort: 1, IfaceID: "vm1", NetworkID: "red"}, {Name: "tap2", OFPort: 2, IfaceID: "vm2", NetworkID: "red"},
	}}, nil)
	of := func(l Limit) []Limit {
		l.Name, l.Label, l.Value = "ofpunt/port=vm1", "ofpunt/port", "vm1"
		return []Limit{l}
	}
	for _, tt := range []struct {
		name     string
		closed   bool
		limits   []Limit
		vm1, vm2 bool
	}{
		{"open", false, nil, false, false},
		{"closed", true, nil, true, true},
		{"closed by a limit", false, of(Limit{FailGiven: true, FailClosed: true}), true, false},
		{"open by a limit", true, of(Limit{FailGiven: true}), false, true},
		{"closed, with another limit", true, of(Limit{Connections: 9}), true, true},
	} {
		rules := NewRules(Config{Placement: placement.Table, FailClosed: tt.closed, Limits: tt.limits})
		for i, got := range At(rules, nil, view).List().Served {
			if want := []bool{tt.vm1, tt.vm2}[i]; got.Closed != want {
				t.Errorf("%s: vm%d: closed %v, want %v", tt.name, i+1, got.Closed, want)
			}
		}
	}
}

// External ports match limits by OVN's tag and the localnet's OpenFlow port.
func TestLimitsOfTaggedGuests(t *testing.T) {
	snapshot := ovntest.External("02:00:00:00:00:11 10.0.0.2")
	view := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: "1", Name: "patch", OFPort: 9, Localnet: "ln"}}}, nil)
	for _, tt := range []struct {
		limit Limit
		want  uint32
	}{{rated("ofpunt/in-port", "9", 5), 5}, {rated("ofpunt/in-port", "1", 5), 1024}, {rated("ofpunt/vlan", "0", 5), 5}, {rated("ofpunt/vlan", "7", 5), 1024}, {rated("ofpunt/port", "x1", 5), 5}} {
		served := At(NewRules(Config{Placement: placement.OVN, Resolvers: defaultResolvers, Limits: []Limit{tt.limit}}), snapshot, view).List().Served
		if len(served) != 1 || served[0].Rate.PerSecond != tt.want {
			t.Errorf("%s: %+v, want one with %d", tt.limit.Name, served, tt.want)
		}
	}
}
