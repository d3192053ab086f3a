// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"slices"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// guestInputsOf has the chassis hv1, which is this one, and hv2, and the network 1 with the port p.
func guestInputsOf(p *binding) *guestInputs {
	rows := newSouthbound(nil, func() []string { return nil })
	rows.isReadByName = func(string) bool { return false }
	rows.setChassis("hv1")
	rows.chassis.Put(ovsdb.UUID{1}, &chassis{name: "hv1"})
	rows.chassis.Put(ovsdb.UUID{2}, &chassis{name: "hv2"})
	rows.datapaths.Put(ovsdb.UUID{9}, &datapath{network: origin.Network{1}, key: 7})
	if p != nil {
		p.name, p.datapath, p.key = "p", ovsdb.UUID{9}, 3
		rows.ports.Put(ovsdb.UUID{0xaa, 0xbb, 0xcc, 0xdd}, p)
	}
	return &guestInputs{
		rows: rows, covers: func(origin.Network) bool { return true }, asked: func(string) bool { return true },
		interfaces: map[any]localPorts{"br": {[]string{"p"}, time.Minute}}, plugged: []string{"p"},
	}
}

// TestGuest: is a port a guest here, and if not, why?
func TestGuest(t *testing.T) {
	hv1, hv2 := ovsdb.UUID{1}, ovsdb.UUID{2}
	confirmed := func(b Binding) map[any]map[Binding]struct{} {
		return map[any]map[Binding]struct{}{"br": {b: {}}}
	}
	in := Binding{Cookie: 0xaabbccdd, Datapath: 7, Port: 3, Interface: "p"}
	other := in
	other.Port = 4
	retained := guestSet{"p": {port: &Port{Name: "p", DatapathKey: 7, Key: 3}}}
	for _, tt := range []struct {
		name string
		port *binding
		g    guestSet
		edit func(*guestInputs)
		want bool
		why  string
	}{
		{"bound here", &binding{chassis: hv1}, nil, nil, true, ""},
		{"migrating here", &binding{chassis: hv2, additional: []ovsdb.UUID{hv1}}, nil, nil, true, ""},
		{"bound elsewhere", &binding{chassis: hv2}, nil, nil, false, `it is bound to chassis "hv2"`},
		{"bound to a chassis that is not known", &binding{chassis: ovsdb.UUID{3}}, nil, nil, false, "it is bound to another chassis"},
		{"not bound", &binding{}, nil, nil, false, "it is bound to no chassis"},
		{"retained", &binding{}, retained, nil, true, "it is bound to no chassis"},
		{"another port's keys are retained", &binding{}, guestSet{"p": {port: &Port{DatapathKey: 7, Key: 4}}}, nil, false, "it is bound to no chassis"},
		{"a localport", &binding{kind: kindLocalport}, nil, nil, false, ""},
		{"no such port", nil, nil, nil, false, "Southbound has no logical port of this name"},
		{"its network is not read", &binding{chassis: hv1}, nil, func(in *guestInputs) {
			in.covers = func(origin.Network) bool { return false }
		}, true, "its network has not been read"},
		{"restored and confirmed", &binding{chassis: hv1}, nil, func(i *guestInputs) { i.restored, i.confirmed = true, confirmed(in) }, true, ""},
		{"restored, and another confirmed", &binding{chassis: hv1}, nil, func(i *guestInputs) { i.restored, i.confirmed = true, confirmed(other) }, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := guestInputsOf(tt.port)
			if tt.edit != nil {
				tt.edit(in)
			}
			if why := in.whyNot("p"); why != tt.why {
				t.Errorf("why %q, want %q", why, tt.why)
			}
			if tt.port == nil {
				return
			}
			if got := tt.g.serves(in, ovsdb.UUID{0xaa, 0xbb, 0xcc, 0xdd}, tt.port, 7); got != tt.want {
				t.Errorf("served: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestGuestStep takes a guest through what may follow the end of its binding.
func TestGuestStep(t *testing.T) {
	hv1, begin := ovsdb.UUID{1}, time.Unix(1000, 0)
	ports, _ := NewPorts(PortsData{Network: origin.Network{1}, Keys: []uint32{7}, Ports: []PortData{{Name: "p", DatapathKey: 7, Key: 3, Local: true}}})
	edit := new(Snapshot).Edit().Put(NewNetwork(NetworkData{ID: origin.Network{1}, Ports: ports}))
	edit.setLocal(hv1, nil)
	prev := edit.Done()
	released := &binding{requested: hv1}
	for _, tt := range []struct {
		name string
		port *binding
		edit func(*guestInputs)
		want []outcome // of the step that releases it, and of the next
		kept bool
	}{
		{"it waits", released, nil, []outcome{retain}, true},
		{"bound again", &binding{chassis: hv1}, nil, []outcome{retain, boundAgain}, false},
		{"bound elsewhere", &binding{chassis: ovsdb.UUID{2}}, nil, []outcome{retain, moved}, false},
		{"deleted", nil, nil, []outcome{retain, deleted}, false},
		{"not bound in time", released, func(in *guestInputs) { in.now = begin.Add(time.Minute) }, []outcome{retain, expired}, false},
		{"without an interface", released, func(in *guestInputs) { in.plugged = nil }, []outcome{retain, unplugged}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inputs := func(p *binding) *guestInputs {
				in := guestInputsOf(p)
				in.now = begin
				return in
			}
			first := *released
			in := inputs(&first)
			in.released = map[string]struct{}{"p": {}}
			g, changes, again := guestSet(nil).step(prev, in)
			if !again.Equal(begin.Add(time.Minute)) || g.count() != 0 {
				t.Errorf("the grace ends at %v, %d are counted", again, g.count())
			}
			var port *binding
			if tt.port != nil {
				copied := *tt.port
				port = &copied
			}
			in = inputs(port)
			if tt.edit != nil {
				tt.edit(in)
			}
			next, more, _ := g.step(prev, in)
			var got []outcome
			for _, c := range append(changes, more...) {
				got = append(got, c.outcome)
			}
			if !slices.Equal(got, tt.want) || next.isRetained("p") != tt.kept {
				t.Errorf("outcomes %v, want %v; retained %v", got, tt.want, next.isRetained("p"))
			}
			if !g.isRetained("p") {
				t.Error("the step has changed the set that it began from")
			}
		})
	}
}
