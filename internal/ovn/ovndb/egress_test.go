// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/testkit"
)

// egressOf has the egress policies of ports, in words of the form "PORT=ENTRY,ENTRY;ENTRY".
func egressOf(s *ovn.Snapshot, ports ...string) string {
	var words []string
	for _, name := range ports {
		p := s.PortByName(name)
		if p == nil {
			words = append(words, name+"=?")
			continue
		}
		var policies []string
		for _, of := range p.Egress() {
			var entries []string
			for _, e := range of.Entries() {
				entries = append(entries, e.String())
			}
			policies = append(policies, strings.Join(entries, ","))
		}
		words = append(words, fmt.Sprintf("%s=%q", name, strings.Join(policies, ";")))
	}
	return strings.Join(words, " ")
}

// TestEgress: the policies that Northbound has for a switch, a port and its groups, and changes to them. vm-a and vm-c are on
// the switch a, and vm-c is of another chassis.
func TestEgress(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	ports := []string{"vm-a", "vm-b", "vm-c"}
	r.nbctl("ls-add a -- ls-add b -- lsp-add a vm-a -- lsp-add a vm-c -- lsp-add b vm-b")
	r.nbctl("--wait=sb pg-add web vm-a vm-b vm-c -- pg-add db vm-a -- pg-add other vm-c -- set Port_Group web external_ids:dns-egress=w.test")
	for i, chassis := range []string{"hv1", "hv2"} {
		r.sbctl(fmt.Sprintf("chassis-add %s geneve 127.0.0.%d", chassis, i+1))
	}
	r.sbctl("lsp-bind vm-a hv1 -- lsp-bind vm-b hv1 -- lsp-bind vm-c hv2")
	readings := r.labelReadings(ports[:2])
	await := func(t *testing.T, want string) {
		t.Helper()
		for _, reading := range readings {
			want := want
			if !reading.northbound {
				want = `vm-a="" vm-b="" vm-c=""`
			}
			eventually(t, reading.source, func(s *ovn.Snapshot) string {
				if got := egressOf(s, ports...); got != want || guests(s) != "vm-a vm-b" || !s.Settled {
					return fmt.Sprintf("%s: got %s, want %s; guests %s, settled %v", reading.name, got, want, guests(s), s.Settled)
				}
				return ""
			})
		}
	}
	await(t, `vm-a="" vm-b="" vm-c=""`)

	// A request has its policies by the next settled snapshot, and no guest goes meanwhile.
	var releases []func()
	for _, reading := range readings {
		releases = append(releases, reading.source.Request(Requests{Egress: true}))
		eventually(t, reading.source, func(s *ovn.Snapshot) string {
			if guests(s) != "vm-a vm-b" {
				t.Errorf("%s: guests %s", reading.name, guests(s))
			}
			if !s.Settled {
				return reading.name + " is not settled"
			}
			return ""
		})
	}
	await(t, `vm-a="w.test." vm-b="w.test." vm-c=""`)
	for _, reading := range readings {
		if s := reading.source.Snapshot(); reading.northbound && s.PortByName("vm-a").Egress()[0] != s.PortByName("vm-b").Egress()[0] {
			t.Errorf("%s: guests of a group do not share its policy", reading.name)
		}
	}
	rowsAre := func(t *testing.T, port, want string) {
		t.Helper()
		for _, reading := range readings {
			if !reading.northbound {
				continue
			}
			eventually(t, reading.source, func(s *ovn.Snapshot) string {
				var rows []string
				for _, p := range s.PortByName(port).Egress() {
					rows = append(rows, p.At)
				}
				if got := strings.Join(rows, ", "); got != want {
					return fmt.Sprintf("%s: policies of %s are in the rows %s, want %s", reading.name, port, got, want)
				}
				return ""
			})
		}
	}
	rowsAre(t, "vm-a", "Port_Group web")
	r.nbctl("--wait=sb set Port_Group web name=net -- set Logical_Switch b name=c external_ids:dns-egress=b.test -- set Logical_Switch_Port vm-b external_ids:dns-egress=b.test")
	rowsAre(t, "vm-b", "Logical_Switch c, Logical_Switch_Port vm-b, Port_Group net")
	r.nbctl("--wait=sb set Logical_Switch c name=b")
	rowsAre(t, "vm-b", "Logical_Switch b, Logical_Switch_Port vm-b, Port_Group net")
	r.nbctl("--wait=sb set Port_Group net name=web -- remove Logical_Switch b external_ids dns-egress -- remove Logical_Switch_Port vm-b external_ids dns-egress")
	await(t, `vm-a="w.test." vm-b="w.test." vm-c=""`)

	for _, step := range []struct {
		name, command, want string
		// same is a guest whose policies stay the same by ==.
		same string
	}{
		{"a switch", `set Logical_Switch a external_ids:dns-egress="a.test,*.a.test~192.0.2.0/24:53/udp"`, `vm-a="a.test.,*.a.test.,192.0.2.0/24:53/udp;w.test." vm-b="w.test." vm-c=""`, "vm-b"},
		{"a port", `set Logical_Switch_Port vm-b external_ids:dns-egress=b.test`, `vm-a="a.test.,*.a.test.,192.0.2.0/24:53/udp;w.test." vm-b="b.test.;w.test." vm-c=""`, "vm-a"},
		{"a second group", `set Port_Group db external_ids:dns-egress=d.test`, `vm-a="a.test.,*.a.test.,192.0.2.0/24:53/udp;d.test.;w.test." vm-b="b.test.;w.test." vm-c=""`, "vm-b"},
		{"another value of a switch", `set Logical_Switch a external_ids:dns-egress=c.test`, `vm-a="c.test.;d.test.;w.test." vm-b="b.test.;w.test." vm-c=""`, "vm-b"},
		{"what else a row has", `set Port_Group web external_ids:other=x -- set Logical_Switch_Port vm-a external_ids:other=x -- set Logical_Switch a other_config:dns_domain=x.test`, `vm-a="c.test.;d.test.;w.test." vm-b="b.test.;w.test." vm-c=""`, "vm-a"},
		{"an entry that can't be parsed", `set Port_Group db external_ids:dns-egress="d..test~e.test"`, `vm-a="c.test.;e.test.;w.test." vm-b="b.test.;w.test." vm-c=""`, "vm-b"},
		{"no entry can be parsed", `set Logical_Switch_Port vm-b external_ids:dns-egress=10.0.0.1/8`, `vm-a="c.test.;e.test.;w.test." vm-b=";w.test." vm-c=""`, "vm-a"},
		{"leaves a group", "pg-set-ports web vm-b", `vm-a="c.test.;e.test." vm-b=";w.test." vm-c=""`, "vm-b"},
		{"the values go", "remove Logical_Switch_Port vm-b external_ids dns-egress -- remove Port_Group web external_ids dns-egress", `vm-a="c.test.;e.test." vm-b="" vm-c=""`, "vm-a"},
		{"an empty value", `set Logical_Switch a external_ids:dns-egress=""`, `vm-a="e.test." vm-b="" vm-c=""`, ""},
	} {
		t.Run(step.name, func(t *testing.T) {
			before := make([]*ovn.Snapshot, len(readings))
			for i, reading := range readings {
				before[i] = reading.source.Snapshot()
			}
			r.nbctl("--wait=sb " + step.command)
			await(t, step.want)
			for i, reading := range readings {
				if step.same == "" {
					continue
				}
				was, is := before[i].PortByName(step.same).Egress(), reading.source.Snapshot().PortByName(step.same).Egress()
				for j := range was {
					if was[j] != is[j] {
						t.Errorf("%s: policy %d of %s is another one", reading.name, j, step.same)
					}
				}
			}
		})
	}

	for _, release := range releases {
		release()
	}
	await(t, `vm-a="" vm-b="" vm-c=""`)
	for _, reading := range readings {
		if !reading.northbound {
			continue
		}
		narrow(reading.source)
		testkit.Eventually(t, "groups are gone", func() bool {
			reading.source.mu.Lock()
			defer reading.source.mu.Unlock()
			return reading.source.nb.PortGroups.Len() == 0
		})
	}
}
