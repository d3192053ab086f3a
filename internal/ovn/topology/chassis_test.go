// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// The index of chassis finds the local one whatever happens to its row.
func TestLocate(t *testing.T) {
	s := NewSouthbound(nil, func() []string { return nil })
	s.SetChassis("hv1")
	id := func(n byte) ovsdb.UUID { return ovsdb.UUID{n} }
	change := func(n byte, old, next string) {
		row := func(name string) *Chassis {
			if name == "" {
				return nil
			}
			return &Chassis{Name: name}
		}
		s.chassisChanged(id(n), row(old), row(next))
	}
	for _, step := range []struct {
		name      string
		n         byte
		old, next string
		want      ovsdb.UUID
	}{
		{"another one", 1, "", "hv2", ovsdb.UUID{}},
		{"the local one", 3, "", "hv1", id(3)},
		{"its new row comes first", 2, "", "hv1", id(2)},
		{"then the old one goes", 3, "hv1", "", id(2)},
		{"renamed", 2, "hv1", "hv3", ovsdb.UUID{}},
		{"another one takes the name", 1, "hv2", "hv1", id(1)},
		{"gone", 1, "hv1", "", ovsdb.UUID{}},
	} {
		if change(step.n, step.old, step.next); s.Self != step.want {
			t.Errorf("%s: got %s, want %s", step.name, s.Self, step.want)
		}
	}
	if !s.ChassisKnown {
		t.Error("it was never located")
	}
}

// TestPortNamed follows the index through what one update may do to a name.
func TestPortNamed(t *testing.T) {
	s := NewSouthbound(nil, func() []string { return nil })
	s.IsReadByName = func(string) bool { return false }
	id := func(n byte) ovsdb.UUID { return ovsdb.UUID{n} }
	named := func(name string) *PortBinding {
		return &PortBinding{PortRow: PortRow{LogicalPort: ovn.LogicalPort{Name: name}}}
	}
	first, renamed, second := named("a"), named("b"), named("a")
	for _, step := range []struct {
		name string
		id   ovsdb.UUID
		next *PortBinding
		a, b *PortBinding
	}{
		{"inserted", id(1), first, first, nil},
		{"another row of the name", id(2), second, second, nil},
		{"the first row deleted", id(1), nil, second, nil},
		{"renamed", id(2), renamed, nil, renamed},
		{"deleted", id(2), nil, nil, nil},
	} {
		s.Ports.Put(step.id, step.next)
		if a, b := s.PortNamed["a"], s.PortNamed["b"]; a != step.a || b != step.b {
			t.Errorf("%s: a %v, b %v", step.name, a, b)
		}
	}
}
