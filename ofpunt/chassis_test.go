// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// Bridges that read the same databases must be of one chassis: the guests of another
// would be lost, or be served on both.
func TestChassisClaims(t *testing.T) {
	config := ovn.Config{Southbound: []string{"unix:" + t.TempDir() + "/sb"}}
	newServer := func(bridge string) *server {
		s := &server{hasOVNHosts: true, database: config, options: defaultOptions(bridge)}
		if err := s.open(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	view := func(chassis string) *ports.View { return &ports.View{View: vswitch.View{Chassis: chassis}} }
	a, b := newServer("br-a"), newServer("br-b")
	defer b.close()
	if a.source != b.source {
		t.Fatal("the bridges have a source each")
	}
	check := func(s *server, chassis, want string) {
		t.Helper()
		s.applyView(view(chassis))
		got := ""
		if err := s.chassisConflict.Load(); err != nil {
			got = (*err).Error()
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s for %s: %q, want %q", s.options.Bridge, chassis, got, want)
		}
	}
	check(a, "hv1", "")
	check(b, "hv1", "")
	check(b, "hv2", `bridge br-a reads the same databases for chassis "hv1"`)
	check(b, "hv1", "")
	again := newServer("br-a") // a reload
	check(again, "hv1", "")
	a.close()
	again.close()
	check(b, "hv2", "")
	if len(claims.m) != 1 {
		t.Errorf("claims of %d sources, want 1", len(claims.m))
	}
}
