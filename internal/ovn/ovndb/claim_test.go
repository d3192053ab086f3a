// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/binding"
	"github.com/puntdns/puntdns/internal/ovn/interest"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/testkit"
)

// claimRig has the chassis hv1, hv2 and hv3, three networks with a guest each, of which that of
// green is a container of red's, and the node hv2 with a clock.
type claimRig struct {
	*graceRig
}

func newClaimRig(t *testing.T) *claimRig {
	r := &claimRig{&graceRig{rig: newRig(t), now: time.Now(), log: &testkit.Lines{}}}
	var ops []any
	for i := range 3 {
		ops = append(ops,
			rawJSON(fmt.Sprintf(`{"op":"insert","table":"Encap","uuid-name":"e%d","row":{"type":"geneve","ip":"127.0.0.%d","chassis_name":"hv%d"}}`, i, i+1, i+1)),
			rawJSON(fmt.Sprintf(`{"op":"insert","table":"Chassis","uuid":%q,"row":{"name":"hv%d","encaps":["named-uuid","e%d"]}}`, rowID(i+1), i+1, i)))
	}
	for i, name := range []string{"red", "blue", "green"} {
		parent := ""
		if name == "green" {
			parent = `,"parent_port":"vm-red","tag":7`
		}
		ops = append(ops,
			rawJSON(fmt.Sprintf(`{"op":"insert","table":"Datapath_Binding","uuid":%q,"row":{"tunnel_key":%d,"external_ids":["map",[["name",%q],["logical-switch",%q]]]}}`, rowID(100+i), i+1, name, rowID(200+i))),
			rawJSON(fmt.Sprintf(`{"op":"insert","table":"Port_Binding","row":{"logical_port":"vm-%s","datapath":["uuid",%q],"tunnel_key":1,"mac":"02:00:00:00:00:01 10.0.0.%d","chassis":["uuid",%q]%s}}`, name, rowID(100+i), i+1, rowID(1), parent)),
			rawJSON(fmt.Sprintf(`{"op":"insert","table":"Port_Binding","row":{"logical_port":"next-%s","datapath":["uuid",%q],"tunnel_key":2,"mac":"02:00:00:00:00:02 10.0.1.%d"}}`, name, rowID(100+i), i+1)))
	}
	r.server.Transact(t, topology.SouthboundName, ops...)
	c := r.config(true, false)
	c.Log = r.log
	r.source = r.acquire(c)
	r.source.mu.Lock()
	r.source.clock = func() time.Time { return r.now }
	r.source.mu.Unlock()
	r.source.nameChassis("hv2")
	return r
}

// claim has chassis claim ports, one and others beside it.
func (r *claimRig) claim(ports string, chassis int, additional ...int) {
	r.t.Helper()
	var all []string
	for _, n := range additional {
		all = append(all, fmt.Sprintf(`["uuid",%q]`, rowID(n)))
	}
	for _, port := range strings.Fields(ports) {
		r.server.Transact(r.t, topology.SouthboundName, rawJSON(fmt.Sprintf(
			`{"op":"update","table":"Port_Binding","where":[["logical_port","==",%q]],"row":{"chassis":["uuid",%q],"additional_chassis":["set",[%s]]}}`,
			port, rowID(chassis), strings.Join(all, ","))))
	}
}

// changes returns how often the conditions have been changed.
func (r *claimRig) changes() uint64 {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	return r.source.sbConn.Latest.Gen
}

// knows waits until the rows of ports are known.
func (r *claimRig) knows(ports ...string) {
	r.t.Helper()
	testkit.Eventually(r.t, fmt.Sprint("known: ", ports), func() bool {
		r.source.mu.Lock()
		defer r.source.mu.Unlock()
		n := 0
		for _, p := range r.source.sb.Ports.All() {
			if slices.Contains(ports, p.Name) {
				n++
			}
		}
		return n == len(ports) && r.source.isAcknowledged()
	})
}

// A guest that ovn-controller claims causes no change of conditions where its network is known, and
// one where it is not, however long its interface stands.
func TestClaim(t *testing.T) {
	t.Parallel()
	r := newClaimRig(t)
	r.plug("vm-red")
	r.claim("vm-red", 2)
	r.are("vm-red", "", "")
	before := r.changes()

	r.plug("next-red", "vm-red")
	r.claim("next-red", 2)
	r.are("next-red vm-red", "", "")
	r.pass(time.Minute)
	r.plug("vm-red")
	r.claim("next-red", 1)
	r.are("vm-red", "", "")
	r.pass(time.Minute)
	if got := r.changes(); got != before {
		t.Errorf("%d changes of conditions for a guest of a network that is known, want none", got-before)
	}

	r.plug("vm-blue", "vm-red")
	r.claim("vm-blue", 2)
	r.are("vm-blue vm-red", "", "")
	r.pass(time.Minute)
	if got := r.changes(); got != before+1 {
		t.Errorf("%d changes of conditions for a guest of a network that is not known, want 1", got-before)
	}
}

// A guest that migrates here is served, though nothing of its network is known: one that has this
// chassis alone beside the one that it comes from at once, whether or not an interface is told of, and one
// that has several beside it once Unserved asks for it. A container of that comes at the end of the migration.
func TestMigrationFromAnUnknownNetwork(t *testing.T) {
	t.Parallel()
	r := newClaimRig(t)
	arriving := func(want string) {
		t.Helper()
		eventually(t, r.source, func(s *ovn.Snapshot) string {
			var all []string
			for p := range s.Guests() {
				if p.Arriving() {
					all = append(all, p.Name)
				}
			}
			slices.Sort(all)
			if got := strings.Join(all, " "); got != want {
				return fmt.Sprintf("arriving: %q, want %q", got, want)
			}
			return ""
		})
	}
	r.claim("vm-blue", 1, 2)
	r.are("vm-blue", "", "")
	arriving("vm-blue")

	r.claim("vm-red vm-green", 1, 2, 3)
	r.plug("vm-blue", "vm-red")
	r.pass(claimTimeout)
	r.are("vm-blue", "", "")
	r.source.as("br").NotHere([]string{"vm-red"})
	r.are("vm-blue vm-red", "", "")
	arriving("vm-blue vm-red")
	r.source.as("br").NotHere(nil)
	r.are("vm-blue vm-red", "", "")

	// Both stay where they have come to. What has been asked for goes later.
	r.claim("vm-red vm-green vm-blue", 2)
	r.knows("vm-red", "vm-green", "vm-blue", "next-red", "next-green", "next-blue")
	r.are("vm-blue vm-green vm-red", "", "")
	arriving("")
	r.plug("vm-red")
	r.claim("vm-blue", 1)
	r.are("vm-green vm-red", "", "")
	r.pass(interest.NarrowAfter)
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	if r.source.sbConn.Latest.Has(topology.TablePort, interest.PortNamed("vm-red")) {
		t.Error("vm-red is asked for by name still")
	}
}

// Interfaces whose port is elsewhere, or that have none, change no conditions.
func TestInterfaceWithoutPort(t *testing.T) {
	t.Parallel()
	r := newClaimRig(t)
	r.claim("vm-red", 2)
	r.are("vm-red", "", "")
	before := r.changes()
	r.plug("vm-blue", "vm-red")
	r.source.as("other").setPorts([]string{"typo", "vm-blue"}, 0)
	r.pass(claimTimeout)
	r.source.as("other").forget()
	r.pass(time.Minute)
	if got := r.changes(); got != before {
		t.Errorf("%d changes of conditions, want none", got-before)
	}
}

// An interface that has just been plugged is not asked for by its name, also where it is said to be
// not served, and nothing is said of it: its chassis may be about to claim it.
func TestUnservedFresh(t *testing.T) {
	t.Parallel()
	r := newClaimRig(t)
	r.claim("vm-red", 2)
	r.are("vm-red", "", "")
	r.plug("typo", "vm-red")
	before := r.changes()
	ports := []string{"typo"}
	r.pass(claimTimeout - 1)
	if said := r.source.as("br").NotHere(ports); len(said) > 0 {
		t.Errorf("said of an interface that has just been plugged: %q", said)
	}
	if got := r.changes(); got != before {
		t.Errorf("%d changes of conditions for an interface that has just been plugged, want none", got-before)
	}
	r.pass(1)
	testkit.Eventually(r.t, "it is told of", func() bool {
		return r.source.as("br").NotHere(ports)["typo"] == "Southbound has no logical port of this name"
	})
	if got := r.changes(); got != before+1 {
		t.Errorf("%d changes of conditions for an interface without a port, want 1", got-before)
	}
}

// Each clause on Port_Binding is "==", whatever is asked for.
func TestPortClauses(t *testing.T) {
	t.Parallel()
	r := newClaimRig(t)
	t.Cleanup(r.source.Request(Requests{
		Routers: true, RouterNames: true, GroupNames: true, Gateways: true, DNSServers: true, ExternalIDs: []string{"k"}, Network: ovn.SwitchRef{Name: "blue"},
	}))
	r.server.Transact(t, topology.SouthboundName,
		rawJSON(fmt.Sprintf(`{"op":"insert","table":"Port_Binding","row":{"logical_port":"red-r","type":"patch","options":["map",[["peer","r-red"]]],"datapath":["uuid",%q],"tunnel_key":9}}`, rowID(100))))
	r.plug("next-red", "vm-green", "vm-red")
	r.claim("vm-red", 2)
	r.knows("vm-red", "red-r", "vm-blue")
	r.pass(claimTimeout)
	r.source.as("br").setPorts([]string{"next-red", "vm-green", "vm-red"}, time.Minute)
	r.source.as("br").NotHere([]string{"next-red"})
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	r.source.grace.Guests = binding.Guests{"kept": {Port: &ovn.Port{LogicalPort: &ovn.LogicalPort{Name: "kept"}, PortContext: new(ovn.PortContext)}}}
	conditions := interest.Southbound(r.source.sb, r.source.interestInputs()).Requests()
	r.source.grace.Guests = nil
	columns := map[string]int{}
	for _, c := range conditions[topology.TablePort] {
		columns[c.Column]++
		if c.Function != "==" {
			t.Errorf("%s %s", c.Column, c.Function)
		}
	}
	want := []string{"additional_chassis", "chassis", "datapath", "logical_port", "type"}
	if got := slices.Sorted(maps.Keys(columns)); !slices.Equal(got, want) {
		t.Errorf("conditions on %q, want %q", got, want)
	}
	// The port that is kept, that of Unserved, and the router's.
	if columns["logical_port"] != 3 {
		t.Errorf("%d conditions on logical_port, want 3: %v", columns["logical_port"], conditions[topology.TablePort])
	}
}
