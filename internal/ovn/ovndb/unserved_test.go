// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"maps"
	"slices"
	"testing"

	"github.com/puntdns/puntdns/internal/testkit"
)

// Nothing is asked for of an owner before its SetPorts and after its ForgetPorts.
func TestUnservedOwner(t *testing.T) {
	c := Config{Southbound: []string{"unix:" + t.TempDir() + "/sb"}}
	s := start(c, mustEndpoints(t, c.Southbound), nil, nil)
	defer s.stop()
	asks := func(when string, want ...string) {
		t.Helper()
		s.as("br").NotHere([]string{"r1"})
		s.mu.Lock()
		defer s.mu.Unlock()
		if got := s.portsByName(); !slices.Equal(got, want) {
			t.Errorf("%s: asked for %q, want %q", when, got, want)
		}
	}
	asks("before")
	s.as("br").setPorts(nil, 0)
	asks("between", "r1")
	s.as("br").forget()
	asks("after")
}

// The reasons follow the rows, with what is read of the networks here only, and with
// everything.
func TestUnserved(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		monitor Monitor
	}{{"local", Local}, {"all", All}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.startNorthd()
			r.nbctl("ls-add red -- lsp-add red r1 -- lsp-add red r2 -- lsp-add red meta -- lsp-set-type meta localport")
			r.sbctl("chassis-add hv1 geneve 127.0.0.1 -- chassis-add hv2 geneve 127.0.0.2")
			testkit.Eventually(r.t, "northd has written the ports", func() bool {
				return r.sbctl("--bare --columns=logical_port find Port_Binding logical_port=meta") == "meta"
			})
			c := r.config(true, false)
			c.Monitor = tt.monitor
			s := r.acquire(c)
			s.nameChassis("hv1")
			s.as("br").setPorts(nil, 0)
			says := func(port, want string) {
				t.Helper()
				testkit.Eventually(r.t, port+": "+want, func() bool {
					reasons := s.as("br").NotHere([]string{port, "meta", "typo"})
					meta, known := reasons["meta"]
					return reasons[port] == want && meta == "" && known && reasons["typo"] == "Southbound has no logical port of this name"
				})
			}
			says("r1", "it is bound to no chassis")
			r.sbctl("lsp-bind r1 hv2")
			says("r1", `it is bound to chassis "hv2"`)
			r.sbctl("lsp-unbind r1 -- lsp-bind r1 hv1")
			says("r1", "")
			r.nbctl("lsp-del r2")
			says("r2", "Southbound has no logical port of this name")
			// A port that becomes one that is no guest has an entry without a reason.
			r.nbctl("--wait=sb lsp-set-type r1 localport")
			testkit.Eventually(r.t, "r1 is no guest", func() bool {
				reason, known := s.as("br").NotHere([]string{"r1"})["r1"]
				return known && reason == ""
			})
			// Nobody asks for them any more.
			s.as("br").NotHere(nil)
			s.mu.Lock()
			defer s.mu.Unlock()
			if got := s.portsByName(); len(got) > 0 {
				t.Errorf("asked for still: %q", got)
			}
		})
	}
}

// A port that Northbound has and Southbound lacks is not one that does not exist: ovn-northd does not run here.
func TestUnservedWithoutNorthd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.nbctl("ls-add red -- lsp-add red r1")
	r.sbctl("chassis-add hv1 geneve 127.0.0.1")
	c := r.config(true, true)
	c.Monitor = All
	s := r.acquire(c)
	s.nameChassis("hv1")
	s.as("br").setPorts(nil, 0)
	want := map[string]string{
		"r1":   "Northbound has this logical port, and Southbound does not: ovn-northd has not copied it",
		"typo": "Southbound has no logical port of this name",
	}
	testkit.Eventually(r.t, "the reasons", func() bool { return maps.Equal(s.as("br").NotHere([]string{"r1", "typo"}), want) })
}

// Where Northbound is read alone, a port that it does not have is told of.
func TestUnservedByNorthbound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		monitor Monitor
	}{{"local", Local}, {"all", All}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.nbctl("ls-add red -- lsp-add red r1 -- lsp-add red meta -- lsp-set-type meta localport")
			c := r.config(false, true)
			c.Monitor = tt.monitor
			s := r.acquire(c)
			ports := []string{"r1", "meta", "typo"}
			s.as("br").setPorts(ports, 0)
			const missing = "Northbound has no logical port of this name"
			testkit.Eventually(r.t, "one is told of", func() bool {
				return maps.Equal(s.as("br").NotHere(ports), map[string]string{"typo": missing, "r1": "", "meta": ""})
			})
			r.nbctl("lsp-del r1 -- lsp-add red typo")
			testkit.Eventually(r.t, "the other is told of", func() bool {
				return maps.Equal(s.as("br").NotHere(ports), map[string]string{"r1": missing, "typo": "", "meta": ""})
			})
			r.server.Stop(t)
			testkit.Eventually(r.t, "none while it is away", func() bool { return len(s.as("br").NotHere(ports)) == 0 })
		})
	}
}
