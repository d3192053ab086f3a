// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
)

// TestForwards: what switches and their routers forward, and changes to that, for each way of
// reading.
func TestForwards(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	ports := []string{"vm-a", "vm-b"}
	for i, s := range []string{"a", "b", "far"} {
		r.nbctl(fmt.Sprintf("ls-add %s -- lsp-add %s vm-%s -- lsp-set-addresses vm-%s 02:00:00:00:00:0%d~10.0.0.%d", s, s, s, s, i, i))
	}
	r.nbctl("lr-add r1 -- lr-add r2")
	r.nbctl(attach("r1", "a", "far"))
	set := func(table, row, value string) string {
		return fmt.Sprintf(`set %s %s external_ids:dns-forward="%s"`, table, row, value)
	}
	r.nbctl(set("Logical_Switch", "a", "corp.example=192.0.2.1;wrong"))
	r.nbctl(set("Logical_Router", "r1", "corp.example=192.0.2.2;other.example=192.0.2.3"))
	r.nbctl(set("Logical_Switch", "far", "corp.example=192.0.2.9"))
	r.nbctl("--wait=sb sync")
	r.sbctl("chassis-add hv1 geneve 127.0.0.1")
	for _, p := range ports {
		r.sbctl("lsp-bind " + p + " hv1")
	}
	var readings []*joinedReading
	for _, reading := range r.labelReadings(ports) {
		if reading.northbound {
			readings = append(readings, reading)
		}
	}
	await := func(t *testing.T, want string) {
		t.Helper()
		for _, reading := range readings {
			eventually(t, reading.source, func(s *ovn.Snapshot) string {
				if got := forwarded(s, "a", "b"); got != want {
					return fmt.Sprintf("%s: got %q, want %q", reading.name, got, want)
				}
				return ""
			})
		}
	}
	await(t, "a:; b:")

	// A request has what it asks for by the next settled snapshot.
	var releases []func()
	for _, reading := range readings {
		if reading.source.sb != nil && reading.source.nb.Routers.Len() > 0 {
			t.Errorf("%s: routers are read that nobody asks for", reading.name)
		}
		releases = append(releases, reading.source.Request(Requests{Forwards: true}))
	}
	const first = `a: switch "a" corp.example.=192.0.2.1:53 router "r1" other.example.=192.0.2.3:53; b:`
	for _, reading := range readings {
		s := eventually(t, reading.source, func(s *ovn.Snapshot) string {
			if !s.Settled {
				return reading.name + " is not settled"
			}
			return ""
		})
		if got := forwarded(s, "a", "b"); got != first {
			t.Errorf("%s: got %q, want %q", reading.name, got, first)
		}
		if s.Stats.BadValues != 1 {
			t.Errorf("%s: %d bad values", reading.name, s.Stats.BadValues)
		}
		if bad := reading.source.BadValues(); bad.Count != 1 || len(bad.First) != 1 || !strings.Contains(bad.First[0], "skipped") {
			t.Errorf("%s: the bad values are %+v", reading.name, bad)
		}
		if reading.local && s.NetworkByName("far") != nil {
			t.Errorf("%s: a network is read that is only behind a router", reading.name)
		}
	}
	for _, step := range []struct{ name, command, want string }{
		{"another value", set("Logical_Switch", "a", "new.example=192.0.2.1,[2001:db8::1]:5353"),
			`a: switch "a" new.example.=192.0.2.1:53,[2001:db8::1]:5353 router "r1" corp.example.=192.0.2.2:53 router "r1" other.example.=192.0.2.3:53; b:`},
		{"of the router", set("Logical_Router", "r1", "other.example=192.0.2.4"),
			`a: switch "a" new.example.=192.0.2.1:53,[2001:db8::1]:5353 router "r1" other.example.=192.0.2.4:53; b:`},
		{"a router is attached", attach("r1", "b"),
			`a: switch "a" new.example.=192.0.2.1:53,[2001:db8::1]:5353 router "r1" other.example.=192.0.2.4:53; b: router "r1" other.example.=192.0.2.4:53`},
		{"a second one", set("Logical_Router", "r2", "other.example=192.0.2.5;third.example=192.0.2.6") + " -- " + attach("r2", "a"),
			`a: switch "a" new.example.=192.0.2.1:53,[2001:db8::1]:5353 router "r1" other.example.=192.0.2.4:53 router "r2" third.example.=192.0.2.6:53; b: router "r1" other.example.=192.0.2.4:53`},
		{"names decide", "set Logical_Router r2 name=r0",
			`a: switch "a" new.example.=192.0.2.1:53,[2001:db8::1]:5353 router "r0" other.example.=192.0.2.5:53 router "r0" third.example.=192.0.2.6:53; b: router "r1" other.example.=192.0.2.4:53`},
		{"the switch's goes", "remove Logical_Switch a external_ids dns-forward",
			`a: router "r0" other.example.=192.0.2.5:53 router "r0" third.example.=192.0.2.6:53; b: router "r1" other.example.=192.0.2.4:53`},
		{"detached", "lsp-del a-r2", `a: router "r1" other.example.=192.0.2.4:53; b: router "r1" other.example.=192.0.2.4:53`},
		{"the router goes", "lr-del r1", "a:; b:"},
		{"comes back", set("Logical_Switch", "b", "x.example=192.0.2.7"), `a:; b: switch "b" x.example.=192.0.2.7:53`},
	} {
		t.Run(step.name, func(t *testing.T) {
			r.nbctl("--wait=sb " + step.command)
			await(t, step.want)
		})
	}

	// A snapshot that says the same shares what it says, and has the same version.
	for _, reading := range readings {
		before := reading.source.Snapshot()
		r.nbctl("set Logical_Switch b other_config:dns_domain=" + fmt.Sprintf("d%p.test", reading))
		s := eventually(t, reading.source, func(s *ovn.Snapshot) string {
			if s.NetworkByName("b").Domain != fmt.Sprintf("d%p.test.", reading) {
				return "not yet"
			}
			return ""
		})
		if s.NetworkByName("b").Forwards != before.NetworkByName("b").Forwards || s.ForwardsVersion != before.ForwardsVersion {
			t.Errorf("%s: they differ", reading.name)
		}
		var yielded []string
		for n, z := range s.Forwards() {
			yielded = append(yielded, n.Name+" "+z.Zone)
		}
		slices.Sort(yielded)
		if want := map[bool]string{true: "[b x.example.]", false: "[b x.example. far corp.example.]"}[reading.local]; fmt.Sprint(yielded) != want {
			t.Errorf("%s: Forwards yields %v, want %s", reading.name, yielded, want)
		}
	}
	for _, release := range releases {
		release()
	}
	await(t, "a:; b:")
	for _, reading := range readings {
		narrow(reading.source)
		eventually(t, reading.source, func(*ovn.Snapshot) string {
			reading.source.mu.Lock()
			defer reading.source.mu.Unlock()
			if reading.source.sb != nil && reading.source.nb.Routers.Len() > 0 {
				return "routers are read still"
			}
			return ""
		})
	}
}

// forwarded says what networks forward, by name.
func forwarded(s *ovn.Snapshot, networks ...string) string {
	var lines []string
	for _, name := range networks {
		n := s.NetworkByName(name)
		if n == nil {
			lines = append(lines, name+": not known")
			continue
		}
		line := name + ":"
		for z := range n.Forwards.All() {
			var servers []string
			for _, server := range z.Servers {
				servers = append(servers, server.String())
			}
			line += " " + z.NamedBy + " " + z.Zone + "=" + strings.Join(servers, ",")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}
