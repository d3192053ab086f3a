// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"testing"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// The index of chassis finds the local one whatever happens to its row.
func TestLocate(t *testing.T) {
	s := newSouthbound(nil, func() []string { return nil })
	s.setChassis("hv1")
	id := func(n byte) ovsdb.UUID { return ovsdb.UUID{n} }
	change := func(n byte, old, next string) {
		row := func(name string) *chassis {
			if name == "" {
				return nil
			}
			return &chassis{name: name}
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
		if change(step.n, step.old, step.next); s.self != step.want {
			t.Errorf("%s: got %s, want %s", step.name, s.self, step.want)
		}
	}
	if !s.located {
		t.Error("it was never located")
	}
}
