// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/testkit"
)

// labelReadings has each way of reading the databases, for the chassis hv1 with the interfaces of
// some ports.
func (r *rig) labelReadings(ports []string) (all []*joinedReading) {
	for _, monitor := range []Monitor{Local, All} {
		for i, c := range []Config{r.config(true, false), r.config(true, true), r.config(false, true)} {
			c.Monitor = monitor
			s := r.acquire(c)
			s.nameChassis("hv1")
			s.as("br").setPorts(ports, 0)
			all = append(all, &joinedReading{
				name:   fmt.Sprintf("southbound %v, northbound %v, monitor %d", i < 2, i > 0, monitor),
				source: s, local: monitor == Local, northbound: i > 0, alone: i == 2,
			})
		}
	}
	return all
}

// labelled are lines of the form "PORT: ROUTERS KEY=VALUE ...", for the keys that are asked for.
func labelled(s *ovn.Snapshot, ports []string, keys ...string) string {
	var lines []string
	for _, name := range ports {
		p := s.PortByName(name)
		if p == nil {
			lines = append(lines, name+": not known")
			continue
		}
		line := name + ": " + p.Routers()
		for _, key := range keys {
			line += " " + key + "=" + p.ExternalID(key)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// TestLabels: what northd makes of routers and of external_ids of ports, and changes to that.
func TestLabels(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	ports := []string{"vm-a", "vm-b", "vm-c"}
	for i, s := range []string{"a", "b", "c"} {
		r.nbctl(fmt.Sprintf("ls-add %s -- lsp-add %s vm-%s -- lsp-set-addresses vm-%s 02:00:00:00:01:%02d~10.0.0.%d", s, s, s, s, i, i))
	}
	// A container has external_ids of its own.
	r.nbctl(`lsp-add a vm-d vm-a 5 -- set Logical_Switch_Port vm-d external_ids:"k8s.ovn.org/network"=pods`)
	r.nbctl("lr-add r1 -- lr-add r2")
	r.nbctl(attach("r1", "a", "b"))
	r.nbctl(attach("r2", "b"))
	r.nbctl(`set Logical_Switch_Port vm-a external_ids:"neutron:project_id"=p1 external_ids:other=x external_ids:"neutron:port_name"=web`)
	r.nbctl(`set Logical_Switch_Port vm-b external_ids:"neutron:project_id"=p2`)
	r.nbctl("--wait=sb sync")
	r.sbctl("chassis-add hv1 geneve 127.0.0.1")
	for _, p := range ports {
		r.sbctl("lsp-bind " + p + " hv1")
	}
	readings := r.labelReadings(append(ports, "vm-d"))
	keys := []string{"neutron:project_id", "k8s.ovn.org/network"}

	await := func(t *testing.T, want string, keys ...string) {
		t.Helper()
		for _, reading := range readings {
			eventually(t, reading.source, func(s *ovn.Snapshot) string {
				if got := labelled(s, ports, keys...); got != want {
					return fmt.Sprintf("%s: got %q, want %q", reading.name, got, want)
				}
				return ""
			})
		}
	}
	await(t, "vm-a:  neutron:project_id=; vm-b:  neutron:project_id=; vm-c:  neutron:project_id=", "neutron:project_id")

	// A request has its values by the next settled snapshot.
	var releases []func()
	for _, reading := range readings {
		releases = append(releases, reading.source.Request(Requests{RouterNames: true}))
	}
	const routers = "vm-a: r1; vm-b: r1,r2; vm-c: "
	awaitSettled := func(want string, keys ...string) {
		t.Helper()
		for _, reading := range readings {
			s := eventually(t, reading.source, func(s *ovn.Snapshot) string {
				if !s.Settled {
					return reading.name + " is not settled"
				}
				return ""
			})
			if got := labelled(s, ports, keys...); got != want {
				t.Errorf("%s: got %q, want %q", reading.name, got, want)
			}
		}
	}
	awaitSettled(routers)
	for _, reading := range readings {
		releases = append(releases, reading.source.Request(Requests{ExternalIDs: keys}), reading.source.Request(Requests{RouterNames: true, ExternalIDs: keys[:1]}))
	}
	const all = "vm-a: r1 neutron:project_id=p1; vm-b: r1,r2 neutron:project_id=p2; vm-c:  neutron:project_id="
	awaitSettled(all, keys[0])
	for _, reading := range readings {
		s := reading.source.Snapshot()
		if p := s.PortByName("vm-a"); p.ExternalID("other") != "" {
			t.Errorf("%s: a key that nobody asks for is kept", reading.name)
		}
		if d := s.PortByName("vm-d"); d.ExternalID("k8s.ovn.org/network") != "pods" || d.ExternalID("neutron:project_id") != "" || d.Routers() != "r1" {
			t.Errorf("%s: the container has %q, %q, %q", reading.name, d.ExternalID("k8s.ovn.org/network"), d.ExternalID("neutron:project_id"), d.Routers())
		}
		// The routers are read, and no more of what is behind them than their ports.
		if reading.local && !reading.alone {
			if got := networks(s); got != "a b c" {
				t.Errorf("%s: networks %s", reading.name, got)
			}
		}
	}

	for _, step := range []struct{ name, command, want string }{
		{"attached", attach("r2", "c"), "vm-a: r1; vm-b: r1,r2; vm-c: r2"},
		{"to a second one", attach("r1", "c"), "vm-a: r1; vm-b: r1,r2; vm-c: r1,r2"},
		{"renamed", "set Logical_Router r1 name=z1", "vm-a: z1; vm-b: r2,z1; vm-c: r2,z1"},
		{"detached at the switch", "lsp-del b-r1", "vm-a: z1; vm-b: r2; vm-c: r2,z1"},
		{"detached at the router", "lrp-del r-c-r2", "vm-a: z1; vm-b: r2; vm-c: z1"},
		{"a router goes", "lr-del z1", "vm-a: ; vm-b: r2; vm-c: "},
		{"one comes in the place of another", "lr-add r3 -- set Logical_Switch_Port a-r1 options:router-port=r-a-r3 -- lrp-add r3 r-a-r3 02:00:00:00:00:01 10.9.0.1/24", "vm-a: r3; vm-b: r2; vm-c: "},
	} {
		t.Run(step.name, func(t *testing.T) {
			r.nbctl("--wait=sb " + step.command)
			await(t, step.want)
		})
	}
	r.nbctl(`set Logical_Switch_Port vm-a external_ids:"neutron:project_id"=p3 -- remove Logical_Switch_Port vm-b external_ids "neutron:project_id"`)
	await(t, "vm-a: r3 neutron:project_id=p3; vm-b: r2 neutron:project_id=; vm-c:  neutron:project_id=", keys[0])
	for _, reading := range readings[:2] { // Southbound has the name of the Neutron port twice
		release := reading.source.Request(Requests{ExternalIDs: []string{"name", "neutron:port_name"}})
		eventually(t, reading.source, func(s *ovn.Snapshot) string {
			if p := s.PortByName("vm-a"); p.ExternalID("name") != "web" || p.ExternalID("neutron:port_name") != "web" {
				return "no name"
			}
			return ""
		})
		release()
	}

	// What nobody asks for any more is not read.
	for _, release := range releases {
		release()
		release()
	}
	for _, reading := range readings {
		if reading.local && !reading.alone {
			narrow(reading.source)
			testkit.Eventually(r.t, "rows of routers are gone", func() bool {
				reading.source.mu.Lock()
				defer reading.source.mu.Unlock()
				return reading.source.sb.Datapaths.Len() == 3
			})
		}
	}
}

// A network that is new is in no snapshot without the names of its routers and the keys that are
// asked for: the first query of its first guest has them.
func TestLabelsOfNewNetworks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	r.sbctl("chassis-add hv1 geneve 127.0.0.1")
	var ports []string
	for i := range 10 {
		ports = append(ports, fmt.Sprintf("vm-s%d", i))
	}
	readings := r.labelReadings(ports)
	var wait sync.WaitGroup
	for _, reading := range readings {
		reading.source.Request(Requests{RouterNames: true, ExternalIDs: []string{"k"}})
		wait.Go(func() {
			for deadline := time.After(patience); ; {
				changed := reading.source.Changed()
				s := reading.source.Snapshot()
				for p := range s.Guests() {
					if want := fmt.Sprintf("%s: r1 k=v", p.Name); labelled(s, []string{p.Name}, "k") != want {
						t.Errorf("%s: got %q, want %q", reading.name, labelled(s, []string{p.Name}, "k"), want)
					}
				}
				if len(strings.Fields(guests(s))) == len(ports) {
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
	r.nbctl("lr-add r1")
	for i, p := range ports {
		s := fmt.Sprintf("s%d", i)
		r.nbctl(fmt.Sprintf("--wait=sb ls-add %s -- lsp-add %s %s -- set Logical_Switch_Port %s external_ids:k=v -- %s", s, s, p, p, attach("r1", s)))
		r.sbctl("lsp-bind " + p + " hv1")
	}
	wait.Wait()
}

// What a reload has asked for in vain, as the database is away, leaves the snapshot settled once
// it is taken back.
func TestLabelsInOutage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sw := r.insertSwitch("a", uuidA, 1)
	r.sbctl("chassis-add hv1 geneve 192.0.2.1 -- create Port_Binding logical_port=p1 tunnel_key=1 external_ids:k=v datapath=" + sw)
	r.sbctl("lsp-bind p1 hv1")
	s := r.acquire(r.config(true, false))
	s.nameChassis("hv1")
	settled := func(want bool) {
		t.Helper()
		eventually(t, s, func(now *ovn.Snapshot) string {
			if now.Settled != want || labelled(now, []string{"p1"}) != "p1: " {
				return fmt.Sprintf("settled: %v, %s", now.Settled, labelled(now, []string{"p1"}))
			}
			return ""
		})
	}
	settled(true)
	r.server.Stop(t)
	testkit.Eventually(r.t, "the outage is noticed", func() bool { return !s.Status().Ready() })
	for _, tt := range []struct {
		name string
		Requests
	}{
		{"a key", Requests{ExternalIDs: []string{"k"}}},
		{"names of routers", Requests{RouterNames: true}},
		{"groups", Requests{GroupNames: true}},
		{"both, and gateways", Requests{RouterNames: true, ExternalIDs: []string{"k", "l"}, Gateways: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			release := s.Request(tt.Requests)
			other := s.Request(Requests{ExternalIDs: tt.ExternalIDs})
			if len(tt.ExternalIDs) > 0 {
				settled(false)
			}
			release()
			if len(tt.ExternalIDs) > 0 {
				settled(false)
			}
			other()
			settled(true)
		})
	}
	s.Request(Requests{ExternalIDs: []string{"k"}})
	r.server.Start(t)
	eventually(t, s, func(now *ovn.Snapshot) string {
		if got := labelled(now, []string{"p1"}, "k"); got != "p1:  k=v" || !now.Settled {
			return fmt.Sprintf("settled: %v, %s", now.Settled, got)
		}
		return ""
	})
}
