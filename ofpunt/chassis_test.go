// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"regexp"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// Bridges that read the same databases must be of one chassis: the guests of another
// would be lost, or be served on both.
func TestChassisClaims(t *testing.T) {
	config := ovndb.Config{Southbound: []string{"unix:" + t.TempDir() + "/sb"}}
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
		if want == "" && got != "" || !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s for %s: %q, want %q", s.options.Bridge, chassis, got, want)
		}
	}
	check(a, "hv1", "")
	check(b, "hv1", "")
	check(b, "hv2", `^bridge br-a .* "hv1"`)
	check(b, "hv1", "")
	// The chassis gets another name, and each bridge learns it by itself.
	check(a, "hv9", `^bridge br-b .* "hv1"`)
	check(b, "hv1", "") // another view, before the bridge learns the name
	check(b, "hv9", "")
	if err := a.chassisConflict.Load(); err != nil {
		t.Errorf("br-a, once both bridges know the name: %v", *err)
	}
	check(b, "hv1", `^bridge br-a .* "hv9"`)
	check(a, "hv1", "")
	check(b, "hv1", "")
	again := newServer("br-a") // a reload
	check(again, "hv1", "")
	a.close()
	again.close()
	check(b, "hv2", "")
	c := newServer("br-c")
	defer c.close()
	check(c, "hv3", `^bridge br-b .* "hv2"`)
	claims.release(b)
	claims.retry(c)
	if err := c.chassisConflict.Load(); err != nil {
		t.Errorf("br-c, once the other bridge is gone: %v", *err)
	}
	if len(claims.m) != 1 {
		t.Errorf("claims of %d sources, want 1", len(claims.m))
	}
}
