// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/testkit"
)

// insertSwitch is what northd would make of a switch, without a Northbound.
func (r *rig) insertSwitch(name, uuid string, key int) string {
	r.t.Helper()
	return r.sbctl(fmt.Sprintf("create Datapath_Binding tunnel_key=%d external_ids:name=%s external_ids:logical-switch=%s", key, name, uuid))
}

const (
	uuidA = "11111111-1111-4111-8111-111111111111"
	uuidB = "22222222-2222-4222-8222-222222222222"
	uuidC = "33333333-3333-4333-8333-333333333333"
)

// TestRecords takes one DNS row through its changes, each with what a new
// reader makes of it.
func TestRecords(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dp := r.insertSwitch("a", uuidA, 1)
	dns := r.sbctl("create DNS datapaths=" + dp + ` records={vm1="10.0.0.1",vm2="10.0.0.1~10.0.0.300"}`)
	var log testkit.Lines
	c := r.config(true, false)
	c.Monitor, c.Log = All, &log
	s := r.acquire(c)
	steps := []struct{ name, command, want string }{
		{"initial", "", `
			a vm1. = 10.0.0.1
			a vm2. = 10.0.0.1
			a 1.0.0.10.in-addr.arpa. = vm1. vm2.`},
		{"another value", "set DNS ROW records:vm1=10.0.0.2", `
			a vm1. = 10.0.0.2
			a 1.0.0.10.in-addr.arpa. = vm2.
			a 2.0.0.10.in-addr.arpa. = vm1.`},
		{"another record", `set DNS ROW records:vm3.x="10.0.0.2"`, `
			a vm3.x. = 10.0.0.2
			a vm1. = 10.0.0.2
			a 2.0.0.10.in-addr.arpa. = vm3.x.`},
		{"one less", "remove DNS ROW records vm3.x", `
			a vm3.x. =
			a 2.0.0.10.in-addr.arpa. = vm1.`},
		{"upper case beside lower", "set DNS ROW records:VM1=10.0.0.9", `
			a vm1. = 10.0.0.2
			a 9.0.0.10.in-addr.arpa. =`},
		{"upper case alone", "remove DNS ROW records vm1", `
			a vm1. = 10.0.0.9
			a 9.0.0.10.in-addr.arpa. = vm1.
			a 2.0.0.10.in-addr.arpa. =`},
		{"two upper cases", "set DNS ROW records:Vm1=10.0.0.8", `
			a vm1. = 10.0.0.9`},
		{"the first of them unreadable", "set DNS ROW records:VM1=x", `
			a vm1. = 10.0.0.8
			a 8.0.0.10.in-addr.arpa. = vm1.`},
		{"both gone", "remove DNS ROW records VM1 Vm1", `
			a vm1. =`},
		{"explicit pointer", `set DNS ROW records:1.0.0.10.in-addr.arpa=Other.x`, `
			a 1.0.0.10.in-addr.arpa. = Other.x.
			a vm2. = 10.0.0.1`},
		{"unreadable pointer", `set DNS ROW records:1.0.0.10.in-addr.arpa=10.0.0.1`, `
			a 1.0.0.10.in-addr.arpa. = vm2.`},
		{"key with a space", `set DNS ROW records:"my~vm"=10.0.0.7`, `
			a my\ vm. = 10.0.0.7`},
		{"key that is no name", `set DNS ROW records:a..b=10.0.0.7`, `
			a vm2. = 10.0.0.1`},
		{"emptied", "clear DNS ROW records", `
			a vm2. =
			a my\ vm. =
			a 1.0.0.10.in-addr.arpa. =`},
		{"filled again", `set DNS ROW records:vm2="10.0.0.1~10.0.0.300"`, `
			a vm2. = 10.0.0.1`},
		{"of another switch", "DATAPATHS", `
			a vm2. =
			b vm2. = 10.0.0.1`},
		{"of none", "destroy DNS ROW", `
			a vm2. =
			b vm2. =`},
	}
	dpB := r.insertSwitch("b", uuidB, 2)
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			switch step.command {
			case "":
			case "DATAPATHS":
				r.sbctl("set DNS " + dns + " datapaths=" + dpB)
			default:
				r.sbctl(strings.ReplaceAll(step.command, "ROW", dns))
			}
			eventually(t, s, lookups(step.want))
			want := ovn.Dump(r.fresh(c))
			eventually(t, s, func(s *ovn.Snapshot) string {
				if got := ovn.Dump(s); got != want {
					return "incremental:\n" + got + "\nfrom scratch:\n" + want
				}
				return ""
			})
		})
	}
	if got := log.Count("10.0.0.300"); got != 1 {
		t.Errorf("a bad value was logged %d times: %q", got, log.All())
	}
	if got := log.Count("a..b"); got != 1 {
		t.Errorf("a bad key was logged %d times: %q", got, log.All())
	}
	if got := s.Snapshot().Stats.BadValues; got != 4 {
		t.Errorf("%d bad values, want 4: %q", got, log.All())
	}
}

// fresh is the snapshot of a new Source, of the same Config but for its Log.
func (r *rig) fresh(c Config) *ovn.Snapshot {
	r.t.Helper()
	c.Log = nil
	sb, nb, err := c.parse()
	if err != nil {
		r.t.Fatal(err)
	}
	s := start(c, sb, nb, nil)
	defer s.stop()
	testkit.Eventually(r.t, "a new source is ready", func() bool { return s.Status().Ready() })
	return s.Snapshot()
}

// TestOverlap: of two rows the one with the lower UUID has the name, and the
// other no reverse of it.
func TestOverlap(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dp := r.insertSwitch("a", uuidA, 1)
	insert := func(uuid, records string) {
		r.server.Transact(t, "OVN_Southbound", rawJSON(`{"op":"insert","table":"DNS","uuid":"`+uuid+`","row":{"records":["map",`+records+`],"datapaths":["uuid","`+dp+`"]}}`))
	}
	insert(uuidB, `[["vm1","10.0.0.2"],["vm2","10.0.0.2"],["vm3","10.0.0.3"]]`)
	insert(uuidA, `[["vm1","10.0.0.1"],["vm3","x"]]`)
	c := r.config(true, false)
	c.Monitor = All
	s := r.acquire(c)
	eventually(t, s, lookups(`
		a vm1. = 10.0.0.1
		a vm2. = 10.0.0.2
		a vm3. = 10.0.0.3
		a 1.0.0.10.in-addr.arpa. = vm1.
		a 2.0.0.10.in-addr.arpa. = vm2.`))
	r.sbctl("create Port_Binding logical_port=p1 tunnel_key=1 datapath=" + dp + " options:hostname=vm2 mac=\"02:00:00:00:00:01~10.0.0.9\"")
	r.sbctl("create Port_Binding logical_port=p2 tunnel_key=2 datapath=" + dp + " options:hostname=vm4 mac=\"02:00:00:00:00:01~10.0.0.9\"")
	eventually(t, s, lookups(`
		a vm2. = 10.0.0.2
		a vm4. = 10.0.0.9
		a 9.0.0.10.in-addr.arpa. = vm4.`))
	r.sbctl("destroy DNS " + uuidA + " " + uuidB)
	eventually(t, s, lookups(`
		a vm1. =
		a vm2. = 10.0.0.9
		a 9.0.0.10.in-addr.arpa. = vm2. vm4.`))
}

// TestSameName: of several networks of one name none is found by it, and a tunnel key may
// pass from one to another.
func TestSameName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.insertSwitch("a", uuidB, 1)
	c := r.config(true, false)
	c.Monitor = All
	s := r.acquire(c)
	is := func(name, uuid string, want int) func(*ovn.Snapshot) string {
		return func(s *ovn.Snapshot) string {
			n, count := s.Resolve(ovn.SwitchRef{Name: name})
			if count != want || (n == nil) != (want > 1) || n != nil && n.ID != networkID(t, uuid) || s.NetworkByName(name) != n || s.Network(networkID(t, uuid)) == nil {
				return fmt.Sprintf("%s: got %v of %d, want %s of %d", name, n, count, uuid, want)
			}
			return ""
		}
	}
	eventually(t, s, is("a", uuidB, 1))
	second := r.insertSwitch("a", uuidA, 2)
	eventually(t, s, is("a", uuidA, 2))
	r.insertSwitch("a", uuidC, 3)
	r.sbctl("create Port_Binding logical_port=p tunnel_key=7 datapath=" + second)
	eventually(t, s, func(s *ovn.Snapshot) string {
		if p := s.Guest(2, 7); p == nil || p.Network != networkID(t, uuidA) {
			return fmt.Sprintf("guest: %+v", p)
		}
		return ""
	})
	r.sbctl("destroy Port_Binding p -- destroy Datapath_Binding " + second + " -- set Datapath_Binding " + first + " tunnel_key=2 -- create Port_Binding logical_port=p tunnel_key=7 datapath=" + first)
	snapshot := eventually(t, s, is("a", uuidB, 2))
	if p := snapshot.Guest(2, 7); p == nil || p.Network != networkID(t, uuidB) || p != snapshot.PortByName("p") {
		t.Errorf("guest: %+v", p)
	}
	if p := snapshot.Guest(1, 7); p != nil {
		t.Errorf("guest by the old key: %+v", p)
	}
	r.sbctl("set Datapath_Binding " + first + " external_ids:name=z")
	snapshot = eventually(t, s, is("z", uuidB, 1))
	if complaint := is("a", uuidC, 1)(snapshot); complaint != "" {
		t.Error(complaint)
	}
	if p := snapshot.PortByName("p"); p == nil || p.SwitchName != "z" {
		t.Errorf("port: %+v", p)
	}
}

// TestOutage: the old snapshot serves until the new contents are complete, and
// then nothing is left of what went meanwhile.
func TestOutage(t *testing.T) {
	t.Parallel()
	for _, monitor := range []Monitor{All, Local} {
		t.Run(map[Monitor]string{All: "all", Local: "local"}[monitor], func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.startNorthd()
			r.build(twoTenants)
			var log testkit.Lines
			c := r.config(true, true)
			c.Monitor, c.Log = monitor, &log
			s := r.acquire(c)
			s.nameChassis("hv1")
			defer s.Request(Requests{Network: ovn.SwitchRef{Name: "red"}})()
			before := eventually(t, s, lookups(always+withNorthbound))

			r.server.Stop(t)
			testkit.Eventually(r.t, "the outage is noticed", func() bool { return !s.Status().Ready() })
			if s.Snapshot() != before {
				t.Error("the snapshot has changed in the outage")
			}
			r.offline(sbFile, `["OVN_Southbound",{"op":"delete","table":"Port_Binding","where":[["logical_port","==","c1"]]},`+
				`{"op":"mutate","table":"DNS","where":[],"mutations":[["records","delete",["set",["vm1.ovn.org"]]]]}]`)
			r.offline(nbFile, `["OVN_Northbound",{"op":"mutate","table":"Logical_Switch","where":[["name","==","blue"]],"mutations":[["external_ids","insert",["map",[["dns_domain","new.test"]]]]]},`+
				`{"op":"delete","table":"DHCP_Options","where":[]},`+
				`{"op":"mutate","table":"DNS","where":[],"mutations":[["records","delete",["set",["vm1.ovn.org"]]]]}]`)
			r.server.Start(t)
			snapshot := eventually(t, s, lookups(`
				blue vm1.ovn.org. =
				blue vm2.ovn.org. = 10.0.0.6 20.0.0.4
				blue vm1.new.test. = 10.0.0.4 aef0::4
				blue vm1.blue.test. =
				red vm1. = 10.0.0.42
				red vm1.ovn.org. =`))
			testkit.Eventually(r.t, "it is ready", func() bool { return s.Status().Ready() })
			// northd puts back what went from Southbound only.
			eventually(t, s, lookups("blue box. = 10.0.0.6"))
			if snapshot.NetworkByName("red") == nil {
				t.Error("red is gone")
			}
			if n := log.Count("in sync with"); n != 4 {
				t.Errorf("%d lines of syncs, want 4: %q", n, log.All())
			}
			if monitor == All {
				eventually(t, s, func(s *ovn.Snapshot) string {
					got, want := ovn.Dump(s), ""
					f := start(Config{Monitor: All}, mustEndpoints(t, c.Southbound), mustEndpoints(t, c.Northbound), nil)
					defer f.stop()
					f.nameChassis("hv1")
					eventually(t, f, func(s *ovn.Snapshot) string {
						if want = ovn.Dump(s); s.Time.IsZero() || guests(s) != guests(snapshot) {
							return "not ready"
						}
						return ""
					})
					if got != want {
						return "after the outage:\n" + got + "\nfrom scratch:\n" + want
					}
					return ""
				})
			}
		})
	}
}

// offline changes a database whose server is stopped.
func (r *rig) offline(file, transaction string) {
	r.t.Helper()
	out, err := exec.Command("ovsdb-tool", "transact", filepath.Join(r.server.Dir, file), transaction).CombinedOutput()
	if err != nil || strings.Contains(string(out), `"error"`) {
		r.t.Fatalf("%s: %v: %s", transaction, err, out)
	}
}

// TestRecordsOfAllKinds: one row of a thousand records on many switches, with
// names as they stand: of other alphabets, encoded or not, and of any bytes.
func TestRecordsOfAllKinds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const switches, names = 20, 1000
	var datapaths, records []string
	for i := range switches {
		datapaths = append(datapaths, r.insertSwitch(fmt.Sprintf("s%d", i), switchID(i), i+1))
	}
	for i := range names {
		records = append(records, fmt.Sprintf(`["vm%d.x","10.0.%d.%d"]`, i, i/250, i%250))
	}
	records = append(records, `["xn--bcher-kva.example","10.1.0.1"]`, `["bücher.example","10.1.0.2"]`, `["_sip._udp.my vm","10.1.0.3"]`)
	r.server.Transact(t, topology.SouthboundName, rawJSON(`{"op":"insert","table":"DNS","row":{"records":["map",[`+strings.Join(records, ",")+
		`]],"datapaths":["set",[["uuid","`+strings.Join(datapaths, `"],["uuid","`)+`"]]]}}`))
	c := r.config(true, false)
	c.Monitor = All
	s := r.acquire(c)
	var want []string
	for i := range switches {
		for j := range names {
			want = append(want, fmt.Sprintf("s%d vm%d.x. = 10.0.%d.%d", i, j, j/250, j%250))
		}
		want = append(want, fmt.Sprintf("s%d xn--bcher-kva.example. = 10.1.0.1", i),
			fmt.Sprintf(`s%d b\195\188cher.example. = 10.1.0.2`, i), fmt.Sprintf(`s%d _sip._udp.my\ vm. = 10.1.0.3`, i),
			fmt.Sprintf(`s%d 3.0.1.10.in-addr.arpa. = _sip._udp.my\ vm.`, i))
	}
	snapshot := eventually(t, s, func(s *ovn.Snapshot) string {
		wrong, _, _ := strings.Cut(lookups(strings.Join(want, "\n"))(s), "\n")
		return wrong
	})
	if got := snapshot.Stats; got.Rows != 1 || got.Names != names+3 {
		t.Errorf("%d rows of %d names", got.Rows, got.Names)
	}
}
