// SPDX-License-Identifier: Apache-2.0

package traits_test

import (
	"os"
	"testing"

	"github.com/puntdns/puntdns/internal/plugincfg"
	"github.com/puntdns/puntdns/internal/plugincfg/traits"
)

// Whoever adds a plugin has to say what holds of it.
func TestEachPluginHasRow(t *testing.T) {
	text, err := os.ReadFile("../../../plugin.cfg")
	if err != nil {
		t.Fatal(err)
	}
	all, err := plugincfg.Parse("plugin.cfg", text)
	if err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	for _, p := range all {
		if _, known := traits.Of(p.Name); !known {
			t.Errorf("%s has no row in the table of package traits", p.Name)
		}
	}
}

// A trait that contradicts another one would be a mistake in the table.
func TestTraits(t *testing.T) {
	for _, tt := range []struct {
		name    string
		of, not traits.Trait
	}{
		{"what recurses blocks", traits.Recurses, traits.NeverBlocks},
		{"what recurses knows names of others", traits.Recurses, traits.OfGuest},
		{"what has zones does not pass everything on", traits.HasZones, traits.PassesOn | traits.Recurses},
		{"what observes answers nothing", traits.Observes, traits.OfGuest | traits.Recurses},
		{"what answers for the guest does not pass everything on", traits.OfGuest, traits.PassesOn},
	} {
		plugins := traits.With(tt.of)
		if len(plugins) == 0 {
			t.Errorf("%s: no plugin", tt.name)
		}
		for _, p := range plugins {
			if traits.Has(p, tt.not) {
				t.Errorf("%s: %s", tt.name, p)
			}
		}
	}
	for _, p := range traits.With(traits.Observes) {
		if !traits.Has(p, traits.PassesOn) {
			t.Errorf("%s observes, and does not pass on", p)
		}
	}
	if traits.Has("nobody", ^traits.Trait(0)) {
		t.Error("a plugin without a row has a trait")
	}
}
