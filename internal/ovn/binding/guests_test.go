// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"slices"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// guestInputsOf has the chassis hv1, which is this one, and hv2, and the network 1 with the port p.
func guestInputsOf(p *topology.PortBinding) *Inputs {
	rows := topology.NewSouthbound(nil, func() []string { return nil })
	rows.IsReadByName = func(string) bool { return false }
	rows.SetChassis("hv1")
	rows.Chassis.Put(ovsdb.UUID{1}, &topology.Chassis{Name: "hv1"})
	rows.Chassis.Put(ovsdb.UUID{2}, &topology.Chassis{Name: "hv2"})
	rows.Datapaths.Put(ovsdb.UUID{9}, &topology.Datapath{Network: origin.Network{1}, Key: 7})
	if p != nil {
		p.Name, p.Datapath, p.Key = "p", ovsdb.UUID{9}, 3
		rows.Ports.Put(ovsdb.UUID{0xaa, 0xbb, 0xcc, 0xdd}, p)
	}
	return &Inputs{
		Rows: rows, Covers: func(origin.Network) bool { return true }, Asked: func(string) bool { return true },
		Interfaces: []LocalPorts{{[]string{"p"}, time.Minute}}, Plugged: []string{"p"},
	}
}

// retainedPort returns the port p of the network 1 with a tunnel key.
func retainedPort(key uint32) *ovn.Port {
	return &ovn.Port{LogicalPort: &ovn.LogicalPort{Name: "p", Key: key}, PortContext: &ovn.PortContext{DatapathKey: 7}}
}

// TestGuest: is a port a guest here, and if not, why?
func TestGuest(t *testing.T) {
	hv1, hv2 := ovsdb.UUID{1}, ovsdb.UUID{2}
	confirmed := func(b InPort) []map[InPort]struct{} {
		return []map[InPort]struct{}{{b: {}}}
	}
	in := InPort{Cookie: 0xaabbccdd, Datapath: 7, Port: 3, Interface: "p"}
	other := in
	other.Port = 4
	retained := Guests{"p": {Port: retainedPort(3)}}
	for _, tt := range []struct {
		name string
		port *topology.PortBinding
		g    Guests
		edit func(*Inputs)
		want bool
		why  string
	}{
		{"bound here", &topology.PortBinding{Chassis: hv1}, nil, nil, true, ""},
		{"migrating here", &topology.PortBinding{Chassis: hv2, PortRow: topology.PortRow{Rare: &topology.RareColumns{Additional: []ovsdb.UUID{hv1}}}}, nil, nil, true, ""},
		{"bound elsewhere", &topology.PortBinding{Chassis: hv2}, nil, nil, false, `it is bound to chassis "hv2"`},
		{"bound to a chassis that is not known", &topology.PortBinding{Chassis: ovsdb.UUID{3}}, nil, nil, false, "it is bound to another chassis"},
		{"not bound", &topology.PortBinding{}, nil, nil, false, "it is bound to no chassis"},
		{"retained", &topology.PortBinding{}, retained, nil, true, "it is bound to no chassis"},
		{"another port's keys are retained", &topology.PortBinding{}, Guests{"p": {Port: retainedPort(4)}}, nil, false, "it is bound to no chassis"},
		{"a localport", &topology.PortBinding{PortRow: topology.PortRow{LogicalPort: ovn.LogicalPort{Type: ovn.TypeLocalport}}}, nil, nil, false, ""},
		{"no such port", nil, nil, nil, false, "Southbound has no logical port of this name"},
		{"its network is not read", &topology.PortBinding{Chassis: hv1}, nil, func(in *Inputs) {
			in.Covers = func(origin.Network) bool { return false }
		}, true, "its network has not been read"},
		{"restored and confirmed", &topology.PortBinding{Chassis: hv1}, nil, func(i *Inputs) { i.Restored, i.Confirmed = true, confirmed(in) }, true, ""},
		{"restored, and another confirmed", &topology.PortBinding{Chassis: hv1}, nil, func(i *Inputs) { i.Restored, i.Confirmed = true, confirmed(other) }, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := guestInputsOf(tt.port)
			if tt.edit != nil {
				tt.edit(in)
			}
			if why := in.WhyNot("p"); why != tt.why {
				t.Errorf("why %q, want %q", why, tt.why)
			}
			if tt.port == nil {
				return
			}
			if got := tt.g.Serves(in, ovsdb.UUID{0xaa, 0xbb, 0xcc, 0xdd}, tt.port, 7); got != tt.want {
				t.Errorf("served: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestGuestStep takes a guest through what may follow the end of its binding.
func TestGuestStep(t *testing.T) {
	hv1, begin := ovsdb.UUID{1}, time.Unix(1000, 0)
	ports, _ := ovn.NewPorts(ovn.PortsData{Network: origin.Network{1}, Keys: []uint32{7}, Ports: []ovn.PortData{{LogicalPort: &ovn.LogicalPort{Name: "p", Key: 3}, DatapathKey: 7, Local: true}}})
	edit := new(ovn.Snapshot).Edit().Put(ovn.NewNetwork(ovn.NetworkData{ID: origin.Network{1}, Ports: ports}))
	edit.SetLocal(hv1, nil)
	prev := edit.Done()
	released := &topology.PortBinding{Requested: hv1}
	for _, tt := range []struct {
		name string
		port *topology.PortBinding
		edit func(*Inputs)
		want []Outcome // of the step that releases it, and of the next
		kept bool
	}{
		{"it waits", released, nil, []Outcome{retain}, true},
		{"bound again", &topology.PortBinding{Chassis: hv1}, nil, []Outcome{retain, boundAgain}, false},
		{"bound elsewhere", &topology.PortBinding{Chassis: ovsdb.UUID{2}}, nil, []Outcome{retain, moved}, false},
		{"deleted", nil, nil, []Outcome{retain, deleted}, false},
		{"not bound in time", released, func(in *Inputs) { in.Now = begin.Add(time.Minute) }, []Outcome{retain, Expired}, false},
		{"without an interface", released, func(in *Inputs) { in.Plugged = nil }, []Outcome{retain, unplugged}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inputs := func(p *topology.PortBinding) *Inputs {
				in := guestInputsOf(p)
				in.Now = begin
				return in
			}
			first := *released
			in := inputs(&first)
			in.Released = map[string]struct{}{"p": {}}
			g, changes, again := Guests(nil).Step(prev, in)
			if !again.Equal(begin.Add(time.Minute)) || g.Count() != 0 {
				t.Errorf("the grace ends at %v, %d are counted", again, g.Count())
			}
			var port *topology.PortBinding
			if tt.port != nil {
				copied := *tt.port
				port = &copied
			}
			in = inputs(port)
			if tt.edit != nil {
				tt.edit(in)
			}
			next, more, _ := g.Step(prev, in)
			var got []Outcome
			for _, c := range append(changes, more...) {
				got = append(got, c.Outcome)
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
