// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// records is a column of keys and values.
func records(kv ...string) names.Records {
	return names.Records{Count: len(kv) / 2, Pairs: func(yield func(k, v []byte) bool) {
		for i := 0; i < len(kv) && yield([]byte(kv[i]), []byte(kv[i+1])); i += 2 {
		}
	}}
}

// failing reports each bad value as an error.
func failing(t testing.TB) names.Reports {
	return names.Reports{Begin: func(string) {}, Bad: func(where, value string, err error) { t.Error(where, value, err) }}
}

// testNetwork is a network with a tunnel key, and ports by their names.
func testNetwork(id byte, name string, key uint32, ports ...string) NetworkData {
	d := PortsData{Network: origin.Network{id}, Switch: name, Keys: []uint32{key}}
	for i, port := range ports {
		d.Ports = append(d.Ports, PortData{
			LogicalPort: &LogicalPort{Name: port, Key: uint32(i + 1), Hostname: port + ".", Addresses: parseAddresses(fmt.Sprintf("10.0.%d.%d", id, i))},
			DatapathKey: key, Local: true,
		})
	}
	all, _ := NewPorts(d)
	return NetworkData{ID: d.Network, Name: name, Ports: all}
}

// The next version of a network with many DNS rows edits the index of the previous one.
func TestNewNetworkEditsIndex(t *testing.T) {
	const count = 200
	d := NetworkData{ID: origin.Network{1}}
	for i := range count {
		table := names.NewTable([16]byte{byte(i)}).Update(records(fmt.Sprintf("vm%d", i), "10.0.0.1"), failing(t))
		d.Tables = append(d.Tables, table)
	}
	d.Previous = NewNetwork(d)
	d.Tables = slices.Clone(d.Tables)
	d.Tables[7] = d.Tables[7].WithOwned(true)
	if got := testing.AllocsPerRun(10, func() { NewNetwork(d) }); got > count {
		t.Errorf("%v allocations for one changed row of %d", got, count)
	}
	if a, ok := NewNetwork(d).Lookup("vm7.", ""); !ok || !a.OVNOwned {
		t.Errorf("%+v %v", a, ok)
	}
}

func TestNewNetwork(t *testing.T) {
	d := testNetwork(1, "red", 7, "vm")
	d.Domain, d.DNSMeter = "red.test.", Meter{Rate: 5}
	d.Tables = []*names.Table{
		names.NewTable([16]byte{1}).Update(records("db", "10.0.0.1"), failing(t)),
		names.NewTable([16]byte{2}).Update(records("db", "10.0.0.2"), failing(t)),
	}
	d.RRs = []*names.RRTable{(*names.RRTable)(nil).Update(records("dns-txt/db", "text"), failing(t))}
	n := NewNetwork(d)
	if n.ID != d.ID || n.Name != "red" || n.Domain != "red.test." || n.DNSMeter.Rate != 5 {
		t.Errorf("%+v", n)
	}
	for name, want := range map[string]string{"db.": `10.0.0.1 TXT:"text"`, "vm.": "10.0.1.0"} {
		if a, _ := n.Lookup(name, ""); ShowAnswer(a) != want {
			t.Errorf("%s has %s, want %s", name, ShowAnswer(a), want)
		}
	}
	empty := NewNetwork(NetworkData{ID: origin.Network{2}})
	if _, ok := empty.Lookup("db.", ""); ok || empty.Owns(parseAddresses("10.0.0.1")[0]) || len(empty.Gateways()) > 0 {
		t.Error("the network without data has something")
	}
}

// TestEditor edits a snapshot step by step. Each is as one that is made at once, and leaves the one before
// as it is.
func TestEditor(t *testing.T) {
	red, blue := testNetwork(1, "red", 7, "r1", "r2"), testNetwork(2, "blue", 8, "b1")
	named := red
	named.Tables = []*names.Table{names.NewTable([16]byte{1}).Update(records("db", "10.0.0.1"), failing(t))}
	limited := named
	limited.DNSMeter = Meter{Rate: 5}
	forwarding := limited
	forwarding.Forwards = NewForwards(red.ID, []ForwardRow{{"switch", "a.test=192.0.2.1"}}, func(ForwardRow) names.Report { return failing(t).Bad })
	type versions struct{ ports, forwards uint64 }
	s, all := new(Snapshot), map[origin.Network]NetworkData{}
	for _, step := range []struct {
		name   string
		put    []NetworkData
		remove []origin.Network
		more   versions
	}{
		{"nothing", nil, nil, versions{}},
		{"a network that is absent", nil, []origin.Network{red.ID}, versions{}},
		{"the first", []NetworkData{red}, nil, versions{1, 0}},
		{"another", []NetworkData{blue}, nil, versions{1, 0}},
		{"names only", []NetworkData{named}, nil, versions{}},
		{"a meter", []NetworkData{limited}, nil, versions{1, 0}},
		{"zones", []NetworkData{forwarding}, nil, versions{0, 1}},
		{"the same", []NetworkData{forwarding}, nil, versions{}},
		{"another port", []NetworkData{testNetwork(1, "red", 7, "r1", "r3")}, nil, versions{1, 1}},
		{"keys change places", []NetworkData{testNetwork(1, "red", 8, "r1"), testNetwork(2, "blue", 7, "b1")}, nil, versions{2, 0}},
		{"a port moves", []NetworkData{testNetwork(1, "red", 8), testNetwork(2, "blue", 7, "b1", "r1")}, nil, versions{2, 0}},
		{"and back", []NetworkData{testNetwork(1, "red", 8, "r1"), testNetwork(2, "blue", 7, "b1")}, nil, versions{2, 0}},
		{"a key goes to another", []NetworkData{testNetwork(3, "green", 8, "r1")}, []origin.Network{red.ID}, versions{2, 0}},
		{"all go", nil, []origin.Network{blue.ID, {3}}, versions{2, 0}},
	} {
		t.Run(step.name, func(t *testing.T) {
			before, wantBefore := s, Dump(s)
			e := s.Edit()
			for _, d := range step.put {
				all[d.ID] = d
				n := NewNetwork(d)
				if e.Put(n); e.Network(d.ID) != n {
					t.Error("the Editor lacks a network that was put")
				}
			}
			for _, id := range step.remove {
				delete(all, id)
				if e.Remove(id); e.Network(id) != nil {
					t.Error("the Editor has a network that was removed")
				}
			}
			s = e.Done()
			atOnce := new(Snapshot).Edit()
			for _, d := range all {
				atOnce.Put(NewNetwork(d))
			}
			if d := cmp.Diff(Dump(atOnce.Done()), Dump(s)); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(wantBefore, Dump(before)); d != "" {
				t.Errorf("the snapshot before has changed: %s", d)
			}
			if got := (versions{s.PortsVersion - before.PortsVersion, s.ForwardsVersion - before.ForwardsVersion}); got != step.more {
				t.Errorf("versions grow by %v, want %v", got, step.more)
			}
		})
	}
	if s.Stats != (Stats{}) {
		t.Errorf("of nothing there is %+v", s.Stats)
	}
}

// TestEditorOfState sets all that a snapshot has beside its networks.
func TestEditorOfState(t *testing.T) {
	red, blue := NewNetwork(testNetwork(1, "red", 7, "r1")), NewNetwork(testNetwork(2, "red", 8, "b1"))
	first := new(Snapshot).Edit().Put(red).Put(blue)
	first.SetHolders("red", []origin.Network{red.ID})
	first.SetLocal([16]byte{1}, map[string]string{"c1": "r1"})
	first.SetStage(Stage{Table: 22, Cookies: []uint32{5}})
	first.SetRows(2, 10)
	s := first.Done()
	if n, count := s.Resolve(SwitchRef{Name: "red"}); n != red || count != 1 {
		t.Errorf("the name is %v's, and %d have it", n, count)
	}
	if !s.HasChassis() || !s.IsRetained("c1") || s.CountRetained([]string{"r1"}) != 1 {
		t.Error("the local chassis or its retained guest is missing")
	}
	if table, cookies, ok := s.DNSStage(); table != 22 || !slices.Equal(cookies, []uint32{5}) || !ok {
		t.Errorf("the stage is %d %d %v", table, cookies, ok)
	}
	if want := (Stats{Networks: 2, Ports: 2, Rows: 2, Names: 12}); s.Stats != want {
		t.Errorf("%+v, want %+v", s.Stats, want)
	}

	second := s.Edit()
	second.SetHolders("red", []origin.Network{red.ID, blue.ID})
	second.SetLocal([16]byte{}, nil)
	second.SetRows(1, 3)
	next := second.Done()
	if n, count := next.Resolve(SwitchRef{Name: "red"}); n != nil || count != 2 {
		t.Errorf("the name is %v's, and %d have it", n, count)
	}
	if next.HasChassis() || next.HasRetained() || next.Stats.Names != 5 || next.PortsVersion != s.PortsVersion {
		t.Errorf("%+v", next.Stats)
	}
	third := next.Edit()
	third.SetHolders("red", nil)
	if n, count := third.Done().Resolve(SwitchRef{Name: "red"}); n != nil || count != 0 {
		t.Errorf("the name is %v's, and %d have it", n, count)
	}
}

// Guests without a router scope are left out from when all guests have one.
func TestEditorOfScopes(t *testing.T) {
	red, blue := NewNetwork(testNetwork(1, "red", 7, "r1")), NewNetwork(testNetwork(2, "blue", 8, "b1"))
	s := new(Snapshot)
	for _, step := range []struct {
		name   string
		put    *Network
		scoped *Network
		clear  bool
		guests int
		all    bool
	}{
		{"no scopes", red, nil, false, 1, false},
		{"a scope", nil, red, false, 1, true},
		{"a network without one", blue, nil, false, 1, true},
		{"its scope", nil, blue, false, 2, true},
		{"no scopes again", nil, nil, true, 2, false},
	} {
		e, version := s.Edit(), s.PortsVersion
		if step.put != nil {
			e.Put(step.put)
		}
		if step.clear {
			e.ClearScopes()
		}
		if step.scoped != nil {
			scopes := e.EditScopes()
			scopes.Set(step.scoped.ID, step.scoped.ID)
			e.SetScopes(scopes)
		}
		s = e.Done()
		if n := len(slices.Collect(s.Guests())); n != step.guests || s.HasRouterScopes() != step.all {
			t.Errorf("%s: %d guests, all have a scope: %v", step.name, n, s.HasRouterScopes())
		}
		if s.PortsVersion == version {
			t.Errorf("%s: the same PortsVersion", step.name)
		}
	}
}
