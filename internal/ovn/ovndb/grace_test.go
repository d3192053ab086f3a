// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/testkit"
)

// graceRig is a chassis with guests of two networks, and a clock.
type graceRig struct {
	*rig
	source *Source
	now    time.Time
	log    *testkit.Lines
}

// fill writes a database: two networks by their tunnel keys, the ports bound to a
// chassis of that number, 0 for none. Each generation has its own UUIDs.
func (r *graceRig) fill(generation, red, blue, chassis int) {
	r.t.Helper()
	ops := []any{rawJSON(fmt.Sprintf(`{"op":"insert","table":"Logical_Flow","row":{"pipeline":"ingress","table_id":20,"match":"1","actions":"next","external_ids":["map",[["stage-name",%q]]]}}`, topology.StageName))}
	bound := `["set",[]]`
	if chassis > 0 {
		ops = append(ops, r.chassisOps(chassis)...)
		bound = fmt.Sprintf(`["uuid",%q]`, rowID(chassis))
	}
	for i, n := range []struct {
		name, uuid string
		key        int
	}{{"red", uuidA, red}, {"blue", uuidB, blue}} {
		dp := rowID(100*generation + i)
		ops = append(ops,
			rawJSON(fmt.Sprintf(`{"op":"insert","table":"Datapath_Binding","uuid":%q,"row":{"tunnel_key":%d,"external_ids":["map",[["name",%q],["logical-switch",%q]]]}}`, dp, n.key, n.name, n.uuid)),
			rawJSON(fmt.Sprintf(`{"op":"insert","table":"DNS","row":{"records":["map",[["db.test","10.0.%d.%d"]]],"datapaths":["uuid",%q]}}`, i, generation, dp)))
		for j, port := range []string{"vm1", "vm2", "box"} {
			parent := ""
			if port == "box" {
				parent = fmt.Sprintf(`,"parent_port":"%s-vm1","tag":42`, n.name)
			}
			ops = append(ops, rawJSON(fmt.Sprintf(`{"op":"insert","table":"Port_Binding","row":{"logical_port":"%s-%s","datapath":["uuid",%q],"tunnel_key":%d,"mac":"02:00:00:00:00:01 10.0.%d.%d","options":["map",[["hostname",%q]]],"chassis":%s%s}}`,
				n.name, port, dp, j+1, i, 10+j, port, bound, parent)))
		}
	}
	r.server.Transact(r.t, topology.SouthboundName, ops...)
}

func (r *graceRig) chassisOps(number int) []any {
	return []any{
		rawJSON(fmt.Sprintf(`{"op":"insert","table":"Encap","uuid-name":"e","row":{"type":"geneve","ip":"127.0.0.%d","chassis_name":"hv%d"}}`, number, number)),
		rawJSON(fmt.Sprintf(`{"op":"insert","table":"Chassis","uuid":%q,"row":{"name":"hv%d","encaps":["named-uuid","e"]}}`, rowID(number), number%10)),
	}
}

// exit does what ovn-controller does when it is stopped.
func (r *graceRig) exit() {
	r.t.Helper()
	r.server.Transact(r.t, topology.SouthboundName,
		rawJSON(`{"op":"update","table":"Port_Binding","where":[],"row":{"chassis":["set",[]]}}`),
		rawJSON(`{"op":"delete","table":"Chassis","where":[["name","==","hv1"]]}`))
}

func (r *graceRig) empty() {
	r.t.Helper()
	var ops []any
	for _, table := range []string{topology.TableDNS, topology.TablePort, topology.TableFlow, topology.TableDatapath, topology.TableChassis} {
		ops = append(ops, rawJSON(fmt.Sprintf(`{"op":"delete","table":%q,"where":[]}`, table)))
	}
	r.server.Transact(r.t, topology.SouthboundName, ops...)
}

func (r *graceRig) bind(port string, chassis int) {
	r.t.Helper()
	r.server.Transact(r.t, topology.SouthboundName, rawJSON(fmt.Sprintf(`{"op":"update","table":"Port_Binding","where":[["logical_port","==",%q]],"row":{"chassis":["uuid",%q]}}`, port, rowID(chassis))))
}

// plug says which interfaces stand.
func (r *graceRig) plug(names ...string) { r.source.as("br").setPorts(names, time.Minute) }

// pass lets time go by.
func (r *graceRig) pass(d time.Duration) {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	r.now = r.now.Add(d)
	r.source.update()
}

// are waits for guests, those among them that are kept, and what they may ask.
func (r *graceRig) are(want, kept, names string) *ovn.Snapshot {
	r.t.Helper()
	return eventually(r.t, r.source, func(s *ovn.Snapshot) string {
		var have []string
		for p := range s.Guests() {
			if s.IsRetained(p.Name) {
				have = append(have, p.Name)
			}
		}
		slices.Sort(have)
		if g, k := guests(s), strings.Join(have, " "); g != want || k != kept || !s.Settled {
			return fmt.Sprintf("guests %q, kept %q, settled %v; want %q, %q", g, k, s.Settled, want, kept)
		}
		if names == "" {
			return ""
		}
		return lookups(names)(s)
	})
}

// asks checks whose packets with the keys are.
func asks(t *testing.T, s *ovn.Snapshot, datapath, port uint32, want string) {
	t.Helper()
	got := ""
	if p := s.Guest(datapath, port); p != nil && p.Local {
		got = p.Name
	}
	if got != want {
		t.Errorf("the guest of keys %d, %d is %q, want %q", datapath, port, got, want)
	}
}

const everyone = "blue-box blue-vm1 blue-vm2 red-box red-vm1 red-vm2"

func TestGrace(t *testing.T) {
	t.Parallel()
	all := []string{"red-vm1", "red-vm2", "blue-vm1", "blue-vm2"}
	for _, tt := range []struct {
		name string
		run  func(t *testing.T, r *graceRig)
	}{
		{"ovn-controller goes and comes", func(t *testing.T, r *graceRig) {
			r.exit()
			s := r.are(everyone, everyone, "red db.test. = 10.0.0.1")
			asks(t, s, 1, 1, "red-vm1")
			asks(t, s, 2, 3, "blue-box")
			// What happens meanwhile is followed.
			r.server.Transact(t, topology.SouthboundName, rawJSON(`{"op":"update","table":"DNS","where":[],"row":{"records":["map",[["db.test","10.9.9.9"]]]}}`))
			r.are(everyone, everyone, "red db.test. = 10.9.9.9\nblue db.test. = 10.9.9.9")
			r.server.Transact(t, topology.SouthboundName, r.chassisOps(11)...)
			r.bind("red-vm1", 11)
			r.are(everyone, "blue-box blue-vm1 blue-vm2 red-box red-vm2", "")
			r.server.Transact(t, topology.SouthboundName, rawJSON(fmt.Sprintf(`{"op":"update","table":"Port_Binding","where":[],"row":{"chassis":["uuid",%q]}}`, rowID(11))))
			r.are(everyone, "", "")
			r.pass(time.Hour)
			r.are(everyone, "", "")
			if begun, over := r.log.Count("bindings of this chassis are gone"), r.log.Count("no guest is kept any more, bound again: 6"); begun != 1 || over != 1 {
				t.Errorf("the log tells %d times of the beginning, %d of the end: %q", begun, over, r.log.All())
			}
		}},
		{"each by itself", func(t *testing.T, r *graceRig) {
			r.exit()
			r.are(everyone, everyone, "")
			r.plug("red-vm1", "blue-vm1", "blue-vm2")
			r.are("blue-box blue-vm1 blue-vm2 red-box red-vm1", "blue-box blue-vm1 blue-vm2 red-box red-vm1", "")
			// A container goes with the interface of its VM.
			r.plug("blue-vm1", "blue-vm2")
			r.are("blue-box blue-vm1 blue-vm2", "blue-box blue-vm1 blue-vm2", "")
			// One that comes back is another.
			r.plug(all...)
			r.are("blue-box blue-vm1 blue-vm2", "blue-box blue-vm1 blue-vm2", "")
			r.server.Transact(t, topology.SouthboundName, r.chassisOps(2)...)
			r.bind("blue-vm1", 2)
			r.are("blue-box blue-vm2", "blue-box blue-vm2", "")
			r.server.Transact(t, topology.SouthboundName, rawJSON(`{"op":"delete","table":"Port_Binding","where":[["logical_port","==","blue-vm2"]]}`))
			r.are("blue-box", "blue-box", "")
			r.pass(59 * time.Second)
			r.are("blue-box", "blue-box", "")
			r.pass(time.Second)
			s := r.are("", "", "")
			asks(t, s, 2, 3, "")
			if over := r.log.Count("no guest is kept any more, bound elsewhere: 1, deleted: 1, without an interface: 3, not bound in time: 1"); over != 1 {
				t.Errorf("the log: %q", r.log.All())
			}
		}},
		{"removed on purpose", func(t *testing.T, r *graceRig) {
			r.server.Transact(t, topology.SouthboundName, rawJSON(`{"op":"update","table":"Port_Binding","where":[["logical_port","==","red-vm1"]],"row":{"chassis":["set",[]]}}`))
			r.are("blue-box blue-vm1 blue-vm2 red-box red-vm2", "", "")
			r.server.Transact(t, topology.SouthboundName, rawJSON(fmt.Sprintf(`{"op":"delete","table":"DNS","where":[["datapaths","includes",["uuid",%q]]]}`, rowID(100))),
				rawJSON(fmt.Sprintf(`{"op":"delete","table":"Port_Binding","where":[["datapath","==",["uuid",%q]]]}`, rowID(100))),
				rawJSON(fmt.Sprintf(`{"op":"delete","table":"Datapath_Binding","where":[["_uuid","==",["uuid",%q]]]}`, rowID(100))))
			r.are("blue-box blue-vm1 blue-vm2", "", "red db.test. = no such network")
		}},
		{"released while it is requested here", func(t *testing.T, r *graceRig) {
			red := `{"op":"update","table":"Port_Binding","where":[["logical_port","==","red-vm1"]],"row":{"chassis":["set",[]],"requested_chassis":["uuid",%q]}}`
			r.server.Transact(t, topology.SouthboundName, rawJSON(fmt.Sprintf(red, rowID(1))))
			r.are(everyone, "", "") // nothing is wrong
			r.bind("red-vm1", 1)
			r.are(everyone, "", "")
			r.server.Transact(t, topology.SouthboundName, rawJSON(fmt.Sprintf(red, rowID(1))))
			r.are(everyone, "", "")
			r.plug("red-vm2", "blue-vm1", "blue-vm2")
			r.are("blue-box blue-vm1 blue-vm2 red-box red-vm2", "", "")
			if len(r.log.All()) > 1 { // in sync
				t.Errorf("the log: %q", r.log.All())
			}
		}},
		{"emptied", func(t *testing.T, r *graceRig) {
			r.empty()
			s := r.are(everyone, everyone, "red db.test. = 10.0.0.1\nblue vm2. = 10.0.1.11")
			asks(t, s, 1, 1, "red-vm1")
			if table, _, ok := s.DNSStage(); !ok || table != 20 {
				t.Errorf("the DNS stage is %d, %v", table, ok)
			}
			r.plug("red-vm1")
			s = r.are("red-box red-vm1", "red-box red-vm1", "blue db.test. = no such network")
			asks(t, s, 1, 2, "")
			asks(t, s, 2, 1, "")
			r.pass(time.Minute)
			r.are("", "", "red db.test. = no such network")
		}},
		{"reset with the same keys", func(t *testing.T, r *graceRig) {
			r.empty()
			r.are(everyone, everyone, "")
			r.fill(3, 1, 2, 0)
			s := r.are(everyone, everyone, "red db.test. = 10.0.0.3\nblue db.test. = 10.0.1.3")
			asks(t, s, 1, 1, "red-vm1")
			r.server.Transact(t, topology.SouthboundName, append(r.chassisOps(11),
				rawJSON(fmt.Sprintf(`{"op":"update","table":"Port_Binding","where":[],"row":{"chassis":["uuid",%q]}}`, rowID(11))))...)
			r.are(everyone, "", "red db.test. = 10.0.0.3")
		}},
		{"reset with other keys", func(t *testing.T, r *graceRig) {
			r.empty()
			r.fill(3, 5, 6, 0)
			s := r.are(everyone, everyone, "red db.test. = 10.0.0.3")
			asks(t, s, 1, 1, "red-vm1") // as the switch knows it
			asks(t, s, 5, 1, "")        // not before it is bound
			r.server.Transact(t, topology.SouthboundName, append(r.chassisOps(11),
				rawJSON(fmt.Sprintf(`{"op":"update","table":"Port_Binding","where":[],"row":{"chassis":["uuid",%q]}}`, rowID(11))))...)
			s = r.are(everyone, "", "red db.test. = 10.0.0.3")
			asks(t, s, 5, 1, "red-vm1")
			asks(t, s, 1, 1, "")
		}},
		{"reset with one network's key for the other", func(t *testing.T, r *graceRig) {
			r.empty()
			r.are(everyone, everyone, "")
			r.fill(3, 7, 1, 0)
			s := r.are("blue-box blue-vm1 blue-vm2", "blue-box blue-vm1 blue-vm2", "blue db.test. = 10.0.1.3")
			asks(t, s, 1, 1, "")
			asks(t, s, 2, 1, "blue-vm1")
		}},
		{"reset with a stranger's network for the key", func(t *testing.T, r *graceRig) {
			r.empty()
			r.are(everyone, everyone, "")
			r.server.Transact(t, topology.SouthboundName, rawJSON(fmt.Sprintf(`{"op":"insert","table":"Datapath_Binding","row":{"tunnel_key":1,"external_ids":["map",[["name","green"],["logical-switch",%q]]]}}`, uuidC)))
			s := r.are("blue-box blue-vm1 blue-vm2", "blue-box blue-vm1 blue-vm2", "")
			asks(t, s, 1, 1, "")
		}},
		{"reset without a port", func(t *testing.T, r *graceRig) {
			r.empty()
			r.are(everyone, everyone, "")
			r.fill(3, 1, 2, 0)
			r.server.Transact(t, topology.SouthboundName, rawJSON(`{"op":"delete","table":"Port_Binding","where":[["logical_port","==","red-vm1"]]}`))
			r.are("blue-box blue-vm1 blue-vm2 red-box red-vm2", "blue-box blue-vm1 blue-vm2 red-box red-vm2", "")
		}},
		{"renamed, and never claimed", func(t *testing.T, r *graceRig) {
			r.server.Transact(t, topology.SouthboundName, r.chassisOps(2)...)
			r.source.nameChassis("hv2")
			s := r.are(everyone, everyone, "red db.test. = 10.0.0.1")
			asks(t, s, 1, 1, "red-vm1")
			r.pass(59 * time.Second)
			r.are(everyone, everyone, "")
			r.pass(time.Second)
			s = r.are("", "", "")
			asks(t, s, 1, 1, "")
			if begun, over := r.log.Count(`this chassis is "hv2", and its guests are bound to chassis "hv1"`), r.log.Count("no guest is kept any more, not bound in time: 6"); begun != 1 || over != 1 {
				t.Errorf("the log tells %d times of the beginning, %d of the end: %q", begun, over, r.log.All())
			}
		}},
		{"renamed, and a stranger's network for the key", func(t *testing.T, r *graceRig) {
			r.server.Transact(t, topology.SouthboundName, r.chassisOps(2)...)
			r.source.nameChassis("hv2")
			r.are(everyone, everyone, "")
			// Southbound holds the key of a network for one row only.
			r.server.Transact(t, topology.SouthboundName, rawJSON(`{"op":"update","table":"Datapath_Binding","where":[["tunnel_key","==",1]],"row":{"tunnel_key":9}}`),
				rawJSON(fmt.Sprintf(`{"op":"insert","table":"Datapath_Binding","row":{"tunnel_key":1,"external_ids":["map",[["name","green"],["logical-switch",%q]]]}}`, uuidC)))
			s := r.are("blue-box blue-vm1 blue-vm2", "blue-box blue-vm1 blue-vm2", "")
			asks(t, s, 1, 1, "")
			asks(t, s, 9, 1, "")
		}},
	} {
		for _, monitor := range []Monitor{Local, All} {
			for _, joined := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/monitor %d, joined %v", tt.name, monitor, joined), func(t *testing.T) {
					t.Parallel()
					r := &graceRig{rig: newRig(t), now: time.Now(), log: &testkit.Lines{}}
					r.fill(1, 1, 2, 1)
					c := r.config(true, false)
					c.Monitor, c.Log = monitor, r.log
					r.source = start(c, mustEndpoints(t, c.Southbound), nil, nil)
					t.Cleanup(r.source.stop)
					r.source.mu.Lock()
					r.source.clock = func() time.Time { return r.now }
					r.source.mu.Unlock()
					if joined {
						t.Cleanup(r.source.Request(Requests{Routers: true}))
					}
					r.source.nameChassis("hv1")
					r.plug(all...)
					r.are(everyone, "", "red db.test. = 10.0.0.1")
					tt.run(t, r)
				})
			}
		}
	}
}

// A chassis that gets another name while its guests are served.
func TestGraceRenamed(t *testing.T) {
	t.Parallel()
	const begin = twoNetworks + `
			sb insert Port_Binding r2 logical_port=r2 datapath=@red tunnel_key=2 chassis=@c1
			sb tells
			chassis hv1
			plug r1 r2 b1
			has guests=r1,r2 kept=0 settled=true`
	for _, tt := range []struct{ name, script string }{
		{"ovn-controller inserts a row once the former is deleted", begin + `
			chassis hv9
			has guests=r1,r2 kept=2
			sb delete Chassis c1
			sb modify Port_Binding r1 chassis=
			sb modify Port_Binding r2 chassis=
			sb tells
			has guests=r1,r2 kept=2
			sb insert Chassis c9 name=hv9
			sb tells
			has guests=r1,r2 kept=2
			sb modify Port_Binding r1 chassis=@c9
			sb tells
			has guests=r1,r2 kept=1
			sb modify Port_Binding r2 chassis=@c9
			sb tells
			has guests=r1,r2 kept=0 settled=true`},
		{"ovn-controller inserts a row beside the former", begin + `
			sb insert Chassis c9 name=hv9
			sb tells
			chassis hv9
			has guests=r1,r2 kept=2 settled=true
			sb modify Port_Binding r1 chassis=@c9
			sb modify Port_Binding r2 chassis=@c9
			sb tells
			has guests=r1,r2 kept=0`},
		{"the row is renamed before this chassis", begin + `
			sb modify Chassis c1 name=hv9
			sb tells
			has guests=r1,r2 kept=2
			chassis hv9
			has guests=r1,r2 kept=0 settled=true`},
		{"the row is renamed after this chassis", begin + `
			chassis hv9
			has guests=r1,r2 kept=2
			sb modify Chassis c1 name=hv9
			sb tells
			has guests=r1,r2 kept=0 settled=true`},
		{"the former name comes back", begin + `
			chassis hv9
			has guests=r1,r2 kept=2
			chassis hv1
			has guests=r1,r2 kept=0 settled=true`},
		{"twice", begin + `
			chassis hv8
			chassis hv9
			has guests=r1,r2 kept=2
			sb insert Chassis c9 name=hv9
			sb modify Port_Binding r1 chassis=@c9
			sb modify Port_Binding r2 chassis=@c9
			sb tells
			has guests=r1,r2 kept=0 settled=true`},
		{"one moves to a third chassis", begin + `
			chassis hv9
			has guests=r1,r2 kept=2
			sb modify Port_Binding r1 chassis=@c2
			sb tells
			has guests=r2 kept=1`},
		{"one is deleted", begin + `
			chassis hv9
			has guests=r1,r2 kept=2
			sb delete Port_Binding r1
			sb tells
			has guests=r2 kept=1`},
		{"one loses its interface", begin + `
			plug r2 b1
			chassis hv9
			has guests=r2 kept=1`},
		{"a port of the former chassis that was no guest before", begin + `
			chassis hv9
			has guests=r1,r2 kept=2
			sb modify Port_Binding b1 chassis=@c1
			sb tells
			has guests=r1,r2 kept=2`},
	} {
		for _, monitor := range []Monitor{Local, All} {
			t.Run(fmt.Sprintf("%s, monitor %d", tt.name, monitor), func(t *testing.T) { runScript(t, monitor, tt.script) })
		}
	}
}
