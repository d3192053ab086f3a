// SPDX-License-Identifier: Apache-2.0

package label

import (
	"slices"
	"testing"

	"github.com/puntdns/puntdns/internal/origin"
)

// attributes are what the databases say of a port.
type attributes map[string]string

func (a attributes) Routers() string              { return a["router"] }
func (a attributes) Groups() string               { return a["group"] }
func (a attributes) ExternalID(key string) string { return a["id "+key] }

// The lowest number counts, whatever label it is of.
func TestIndex(t *testing.T) {
	network := origin.Network{15: 9}
	of := func(change func(*origin.Origin)) *origin.Origin {
		o := &origin.Origin{InPort: 7, VLAN: 5, Network: network, Switch: "red", Port: "vm1", Attributes: attributes{"router": "r1,r2", "group": "g1,g2", "id project": "p"}}
		if change != nil {
			change(o)
		}
		return o
	}
	values := func(of ...string) []string { return of }
	tests := []struct {
		name   string
		values []string
		of     *origin.Origin
		want   int
	}{
		{"no limits", nil, of(nil), -1},
		{"port", values("ofpunt/port", "vm1"), of(nil), 0},
		{"another port", values("ofpunt/port", "vm2"), of(nil), -1},
		{"a part of the name", values("ofpunt/port", "vm"), of(nil), -1},
		{"another case", values("ofpunt/port", "VM1"), of(nil), -1},
		{"network", values("ofpunt/network", network.String()), of(nil), 0},
		{"a network that is not known", values("ofpunt/network", origin.Network{}.String()), of(func(o *origin.Origin) { o.Network = origin.Network{} }), -1},
		{"switch", values("ofpunt/switch", "blue", "ofpunt/switch", "red"), of(nil), 1},
		{"switch by its escapes", values("ofpunt/switch", "red\u202e", "ofpunt/switch", `red\u202e`), of(func(o *origin.Origin) { o.Switch = "red\u202e" }), 1},
		{"one of two routers", values("ofpunt/router", "r2"), of(nil), 0},
		{"the other router is first in the Corefile", values("ofpunt/port", "none", "ofpunt/router", "r2", "ofpunt/router", "r1"), of(nil), 1},
		{"one of two groups", values("ofpunt/group", "g", "ofpunt/group", "g2"), of(nil), 1},
		{"no router", values("ofpunt/router", "r1"), of(func(o *origin.Origin) { o.Attributes = attributes{} }), -1},
		{"nothing is known but the port", values("ofpunt/router", "r1", "ofpunt/external-id/project", "p", "ofpunt/port", "vm1"), of(func(o *origin.Origin) { o.Attributes = nil }), 2},
		{"OpenFlow port", values("ofpunt/in-port", "7"), of(nil), 0},
		{"VLAN", values("ofpunt/vlan", "0", "ofpunt/vlan", "5"), of(nil), 1},
		{"no VLAN", values("ofpunt/vlan", "0", "ofpunt/vlan", "5"), of(func(o *origin.Origin) { o.VLAN = 0 }), 0},
		{"key", values("ofpunt/external-id/owner", "p", "ofpunt/external-id/project", "p"), of(nil), 1},
		{"the first of several labels", values("ofpunt/switch", "blue", "ofpunt/external-id/project", "p", "ofpunt/port", "vm1", "ofpunt/switch", "red"), of(nil), 1},
		{"the first of several labels, the other way", values("ofpunt/port", "vm1", "ofpunt/external-id/project", "p"), of(nil), 0},
		{"the same value of another label", values("ofpunt/switch", "vm1", "ofpunt/port", "vm1"), of(nil), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var x Index
			for i := 0; i < len(tt.values); i += 2 {
				l, ok := Named(tt.values[i])
				if !ok || x.Add(l, tt.values[i+1], i/2) != nil {
					t.Fatalf("%q", tt.values[i:i+2])
				}
			}
			if got := x.Find(tt.of); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}

// AppendAll has each value of a guest, and reads them without an allocation.
func TestIndexAppendAll(t *testing.T) {
	var x Index
	for i, v := range [][2]string{{Router, "r2"}, {Port, "vm2"}, {Switch, "red"}, {Router, "r1"}, {ExternalID + "project", "p"}, {VLAN, "0"}} {
		l, ok := Named(v[0])
		if !ok || x.Add(l, v[1], i) != nil {
			t.Fatal(v)
		}
	}
	o := &origin.Origin{Port: "vm1", Switch: "red", VLAN: 5, Attributes: attributes{"router": "r1,r2", "id project": "p"}}
	got := x.AppendAll(nil, o)
	slices.Sort(got)
	if want := []int{0, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := x.AppendAll(nil, &origin.Origin{VLAN: 7}); len(got) > 0 {
		t.Errorf("%v for a guest without values", got)
	}
	if n := testing.AllocsPerRun(100, func() { got = x.AppendAll(got[:0], o) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
