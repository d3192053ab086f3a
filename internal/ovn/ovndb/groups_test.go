// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/testkit"
)

// grouped has the groups of ports, in words of the form "PORT=GROUPS".
func grouped(s *ovn.Snapshot, ports ...string) string {
	var words []string
	for _, name := range ports {
		groups := "?"
		if p := s.PortByName(name); p != nil {
			groups = p.Groups()
		}
		words = append(words, name+"="+groups)
	}
	return strings.Join(words, " ")
}

// TestGroups: what northd makes of port groups, and changes to that. vm-a and vm-c are on the switch a, and vm-c is of
// another chassis.
func TestGroups(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	ports := []string{"vm-a", "vm-b"}
	r.nbctl("ls-add a -- ls-add b -- lsp-add a vm-a -- lsp-add a vm-c -- lsp-add b vm-b")
	r.nbctl("--wait=sb pg-add web vm-a vm-b vm-c -- pg-add other vm-c")
	for i, chassis := range []string{"hv1", "hv2"} {
		r.sbctl(fmt.Sprintf("chassis-add %s geneve 127.0.0.%d", chassis, i+1))
	}
	r.sbctl("lsp-bind vm-a hv1 -- lsp-bind vm-b hv1 -- lsp-bind vm-c hv2")
	readings := r.labelReadings(ports)
	await := func(t *testing.T, want string) {
		t.Helper()
		for _, reading := range readings {
			eventually(t, reading.source, func(s *ovn.Snapshot) string {
				if got := grouped(s, ports...); got != want || guests(s) != "vm-a vm-b" || !s.Settled {
					return fmt.Sprintf("%s: got %q, want %q; guests %s, settled %v", reading.name, got, want, guests(s), s.Settled)
				}
				return ""
			})
		}
	}
	await(t, "vm-a= vm-b=")

	// A request has its values by the next settled snapshot, and no guest goes meanwhile.
	var releases []func()
	for _, reading := range readings {
		releases = append(releases, reading.source.Request(Requests{GroupNames: true}))
	}
	for _, reading := range readings {
		s := eventually(t, reading.source, func(s *ovn.Snapshot) string {
			if guests(s) != "vm-a vm-b" {
				t.Errorf("%s: guests %s", reading.name, guests(s))
			}
			if !s.Settled {
				return reading.name + " is not settled"
			}
			return ""
		})
		if got, want := grouped(s, ports...), "vm-a=web vm-b=web"; got != want {
			t.Errorf("%s: got %q, want %q", reading.name, got, want)
		}
		if p := s.PortByName("vm-c"); p == nil || p.Groups() != "" {
			t.Errorf("%s: the port of another chassis: %+v", reading.name, p)
		}
	}

	for _, step := range []struct {
		name, command, want string
		// same is a switch whose ports are not built again.
		same string
	}{
		{"a name like those of Southbound", "pg-add 7_db vm-a", "vm-a=7_db,web vm-b=web", "b"},
		{"leaves", "pg-set-ports web vm-b vm-c", "vm-a=7_db vm-b=web", "b"},
		{"a port of another chassis leaves, and a guest joins", "pg-set-ports web vm-b -- pg-add web_2 vm-b", "vm-a=7_db vm-b=web,web_2", "a"},
		{"joins", "pg-set-ports web vm-a vm-b", "vm-a=7_db,web vm-b=web,web_2", "b"},
		{"another name", "set Port_Group web name=web_3", "vm-a=7_db,web_3 vm-b=web_2,web_3", ""},
		{"no ports", "clear Port_Group web_2 ports", "vm-a=7_db,web_3 vm-b=web_3", "a"},
		{"the group goes", "pg-del web_3", "vm-a=7_db vm-b=", ""},
	} {
		t.Run(step.name, func(t *testing.T) {
			before := make([]*ovn.Snapshot, len(readings))
			for i, reading := range readings {
				before[i] = reading.source.Snapshot()
			}
			r.nbctl("--wait=sb " + step.command)
			await(t, step.want)
			for i, reading := range readings {
				if step.same != "" && before[i].NetworkByName(step.same).Ports() != reading.source.Snapshot().NetworkByName(step.same).Ports() {
					t.Errorf("%s: the ports of switch %s were built again", reading.name, step.same)
				}
			}
		})
	}

	for _, release := range releases {
		release()
	}
	for _, reading := range readings {
		narrow(reading.source)
		testkit.Eventually(t, "groups are gone", func() bool {
			reading.source.mu.Lock()
			defer reading.source.mu.Unlock()
			if reading.alone {
				return reading.source.nb.PortGroups.Len() == 0
			}
			return reading.source.sb.PortGroups.Len() == 0
		})
	}
	await(t, "vm-a= vm-b=")
}

// A guest is in no snapshot without its groups and their egress policies, on a network that is read already too. With
// Monitor Local only groups of guests are read.
func TestGroupsOfNewGuests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	r.sbctl("chassis-add hv1 geneve 127.0.0.1")
	r.nbctl("ls-add a -- ls-add b -- lsp-add b elsewhere -- pg-add g_elsewhere elsewhere")
	ports := []string{"elsewhere"}
	for i := range 10 {
		ports = append(ports, fmt.Sprintf("vm%d", i))
	}
	readings := r.labelReadings(ports[1:])
	var wait sync.WaitGroup
	for _, reading := range readings {
		reading.source.Request(Requests{GroupNames: true, Egress: true})
		wait.Go(func() {
			for deadline := time.After(patience); ; {
				changed := reading.source.Changed()
				s := reading.source.Snapshot()
				for p := range s.Guests() {
					if want := "g_" + p.Name; p.Groups() != want {
						t.Errorf("%s: %s is in %q, want %q", reading.name, p.Name, p.Groups(), want)
					}
					if got, want := egressOf(s, p.Name), p.Name+`="g.test."`; reading.northbound && got != want {
						t.Errorf("%s: %s, want %s", reading.name, got, want)
					}
				}
				if len(strings.Fields(guests(s))) == len(ports)-1 {
					return
				}
				select {
				case <-changed:
				case <-deadline:
					t.Errorf("%s: guests %s", reading.name, guests(s))
					return
				}
			}
		})
	}
	for _, p := range ports[1:] {
		r.nbctl(fmt.Sprintf("--wait=sb lsp-add a %s -- pg-add g_%s %s -- set Port_Group g_%s external_ids:dns-egress=g.test", p, p, p, p))
		r.sbctl("lsp-bind " + p + " hv1")
	}
	wait.Wait()
	for _, reading := range readings {
		if !reading.local {
			continue
		}
		reading.source.mu.Lock()
		if reading.northbound && reading.source.nb.PortGroups.Len() != len(ports)-1 {
			t.Errorf("%s: %d groups of Northbound, want %d", reading.name, reading.source.nb.PortGroups.Len(), len(ports)-1)
		}
		if !reading.alone && reading.source.sb.PortGroups.Len() != len(ports)-1 {
			t.Errorf("%s: %d groups of Southbound, want %d", reading.name, reading.source.sb.PortGroups.Len(), len(ports)-1)
		}
		reading.source.mu.Unlock()
	}
}

// The saved state has the groups of guests, and their egress policies.
func TestGroupsOfWarmStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	r.nbctl("--wait=sb ls-add a -- lsp-add a vm -- pg-add web vm -- pg-add db vm -- set Port_Group web external_ids:dns-egress=w.test")
	r.sbctl("chassis-add hv1 geneve 127.0.0.1 -- lsp-bind vm hv1")
	w := newWarmRig(r, r.config(true, true), "vm")
	s := w.start()
	s.Request(Requests{GroupNames: true, Egress: true})
	eventually(t, s, settled("vm"))
	flows := bindings(s)
	w.release()

	r.server.Signal(t, syscall.SIGSTOP)
	defer r.server.Signal(t, syscall.SIGCONT)
	next := w.start()
	defer w.release()
	next.Request(Requests{GroupNames: true, Egress: true})
	next.as("br").Confirm(flows)
	served := eventually(t, next, settled("vm"))
	if got, want := grouped(served, "vm")+" "+egressOf(served, "vm"), `vm=db,web vm="w.test."`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// BenchmarkGroups has a guest join and leave a group of 10,000 other ports. It reports the memory of the group, and with
// a warm start that of its saved form too.
func BenchmarkGroups(b *testing.B) {
	const count = 10_000
	for _, snapshot := range []bool{false, true} {
		b.Run(fmt.Sprintf("snapshot %v", snapshot), func(b *testing.B) {
			r := newRig(b)
			sw := r.insertSwitch("a", uuidA, 1)
			r.sbctl("chassis-add hv1 geneve 192.0.2.1 -- create Port_Binding logical_port=vm tunnel_key=1 datapath=" + sw)
			r.sbctl("lsp-bind vm hv1")
			ports := make([]string, count)
			for i := range ports {
				ports[i] = fmt.Sprintf("%q", fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i))
			}
			r.server.Transact(b, topology.SouthboundName, rawJSON(fmt.Sprintf(`{"op":"insert","table":"Port_Group","row":{"name":"1_web","ports":["set",[%s]]}}`, strings.Join(ports, ","))))
			change := func(how string) {
				r.server.Transact(b, topology.SouthboundName, rawJSON(fmt.Sprintf(`{"op":"mutate","table":"Port_Group","where":[],"mutations":[["ports",%q,"vm"]]}`, how)))
			}
			c := r.config(true, false)
			c.Monitor = All
			if snapshot {
				c.WarmStart = WarmStart{Folder: b.TempDir(), MaxAge: time.Hour}
			}
			s := r.acquire(c)
			s.nameChassis("hv1")
			s.as("br").setPorts([]string{"vm"}, 0)
			eventually(b, s, settled("vm"))
			heap := func() uint64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			before := heap()
			s.Request(Requests{GroupNames: true})
			eventually(b, s, settled("vm"))
			after := heap()
			is := func(want string) {
				testkit.OnChange(b, s, "the group", func() error {
					if got := grouped(s.Snapshot(), "vm"); got != want {
						return errors.New(got)
					}
					return nil
				})
			}
			for b.Loop() {
				change("insert")
				is("vm=web")
				change("delete")
				is("vm=")
			}
			b.ReportMetric(float64(after-before)/count, "B/port")
		})
	}
}
