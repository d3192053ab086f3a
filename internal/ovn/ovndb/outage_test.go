// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
	"github.com/puntdns/puntdns/internal/testkit"
)

// inOutage changes a database while the server is away: it comes back with less
// than it had, and tells nobody what went.
func (r *rig) inOutage(s *Source, file, transaction string) {
	r.t.Helper()
	r.server.Stop(r.t)
	testkit.Eventually(r.t, "the outage is noticed", func() bool { return !s.Status().Ready() })
	r.offline(file, transaction)
	r.server.Start(r.t)
	testkit.Eventually(r.t, "it is ready", func() bool { return s.Status().Ready() })
}

// rows are the UUIDs of the rows kept of each table that has some.
func (s *Source) rows() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	if s.sb != nil {
		lines = append(lines, list(s.sb.Chassis), list(s.sb.Datapaths), list(s.sb.Ports), list(s.sb.DNS), list(s.sb.Flows),
			list(s.sb.CoPP.Groups), list(s.sb.CoPP.Meters), list(s.sb.CoPP.Bands))
	}
	if s.nb != nil {
		lines = append(lines, list(s.nb.Switches), list(s.nb.Ports), list(s.nb.DHCP), list(s.nb.DNS), list(s.nb.Routers), list(s.nb.RouterPorts))
	}
	return strings.Join(lines, "\n")
}

func list[R any](table *rows.Table[R]) string {
	var ids []ovsdb.UUID
	for id := range table.All() {
		ids = append(ids, id)
	}
	return fmt.Sprintf("%s %v", table.Name(), ovsdb.SortUUIDs(ids))
}

// keepsWhatIsThere compares the rows that are kept with those that a new reader
// gets. To keep more is to answer from it when another row refers to it again, and
// to grow with each outage.
func (r *rig) keepsWhatIsThere(s *Source, c Config, aim func(*Source)) {
	r.t.Helper()
	fresh := start(c, mustEndpoints(r.t, c.Southbound), mustEndpoints(r.t, c.Northbound), nil)
	defer fresh.stop()
	aim(fresh)
	// Either may have more to ask for, or to leave, when the other has it all.
	diff := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		narrow(s)
		if diff = cmp.Diff(ovn.Dump(fresh.Snapshot()), ovn.Dump(s.Snapshot())); diff != "" {
			continue
		}
		if diff = cmp.Diff(fresh.rows(), s.rows()); diff == "" {
			return
		}
	}
	r.t.Errorf("-a new reader's +those kept:\n%s", diff)
}

// What goes from Northbound while it cannot be reached is gone when it can be
// again: switches with their names, routers with what they join.
func TestDeletedInOutageNorthbound(t *testing.T) {
	t.Parallel()
	for _, monitor := range []Monitor{All, Local} {
		t.Run(map[Monitor]string{All: "all", Local: "local"}[monitor], func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for i, name := range []string{"a", "b", "gone"} {
				r.nbctl(fmt.Sprintf("ls-add %s -- lsp-add %s vm-%s -- lsp-set-addresses vm-%s 02:00:00:00:01:%02d~10.0.0.%d -- lsp-set-options vm-%s hostname=own-%s",
					name, name, name, name, i, i, name, name))
			}
			r.nbctl("lsp-add a vm-old -- lsp-set-addresses vm-old 02:00:00:00:01:09~10.0.0.9 -- lsp-set-options vm-old hostname=old")
			dhcp := r.nbctl("create DHCP_Options cidr=10.0.0.0/24 options:domain_name=dhcp.test")
			r.nbctl("lsp-set-dhcpv4-options vm-a " + dhcp)
			dns := r.nbctl("create DNS records:db.test=10.0.0.20")
			r.nbctl("add Logical_Switch a dns_records " + dns)
			r.nbctl("lr-add r -- " + attach("r", "a", "b"))

			c := r.config(false, true)
			c.Monitor = monitor
			s := r.acquire(c)
			aim := func(s *Source) {
				t.Cleanup(s.Request(Requests{Network: ovn.SwitchRef{Name: "gone"}}))
				t.Cleanup(s.Request(Requests{Routers: true}))
				s.as("br").setPorts([]string{"vm-a"}, 0)
			}
			aim(s)
			eventually(t, s, func(s *ovn.Snapshot) string {
				if got := joined(s, "a"); got != "a b" {
					return "a is joined to " + got
				}
				return lookups(`
					a db.test. = 10.0.0.20
					a old. = 10.0.0.9
					a own-a.dhcp.test. = 10.0.0.0
					gone own-gone. = 10.0.0.2`)(s)
			})
			r.inOutage(s, nbFile, fmt.Sprintf(`["OVN_Northbound",{"op":"delete","table":"Logical_Switch","where":[["name","==","gone"]]},`+
				`{"op":"delete","table":"Logical_Router","where":[["name","==","r"]]},`+
				`{"op":"delete","table":"DHCP_Options","where":[]},{"op":"delete","table":"DNS","where":[]},`+
				`{"op":"mutate","table":"Logical_Switch","where":[["name","==","a"]],"mutations":[["ports","delete",["uuid","%s"]]]}]`,
				r.uuidOf("Logical_Switch_Port", "vm-old")))
			eventually(t, s, func(s *ovn.Snapshot) string {
				if got := joined(s, "a"); got != "a" {
					return "a is joined to " + got
				}
				return lookups(`
					a db.test. =
					a old. =
					a own-a.dhcp.test. =
					a own-a. = 10.0.0.0
					gone own-gone. = no such network`)(s)
			})
			r.keepsWhatIsThere(s, c, aim)
		})
	}
}

// uuidOf is the UUID of a row of Northbound.
func (r *rig) uuidOf(table, name string) string {
	r.t.Helper()
	return r.nbctl("--bare --columns=_uuid find " + table + " name=" + name)
}

// The node has been set up anew and OVN upgraded while Southbound could not be
// reached: guests are those of the chassis that is there, and the stage is where the
// flows are that are there, though there were more of the others.
func TestDeletedInOutageSouthbound(t *testing.T) {
	t.Parallel()
	for _, monitor := range []Monitor{All, Local} {
		t.Run(map[Monitor]string{All: "all", Local: "local"}[monitor], func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			dp := r.insertSwitch("a", uuidA, 1)
			r.insertSwitch("gone", uuidB, 2)
			r.sbctl("create DNS datapaths=" + dp + " records={db.test=10.0.0.20}")
			r.sbctl("chassis-add hv1 geneve 127.0.0.1")
			for i, name := range []string{"p1", "p2"} {
				r.sbctl(fmt.Sprintf("create Port_Binding logical_port=%s datapath=%s tunnel_key=%d mac=\"02:00:00:00:00:01~10.0.0.%d\" options:hostname=%s", name, dp, i+1, i+1, name))
				r.sbctl("lsp-bind " + name + " hv1")
			}
			for i := range 2 {
				r.sbctl(fmt.Sprintf("create Logical_Flow pipeline=ingress table_id=20 priority=%d match=1 actions=next external_ids:stage-name=%s", i, topology.StageName))
			}

			c := r.config(true, false)
			c.Monitor = monitor
			s := r.acquire(c)
			aim := func(s *Source) {
				t.Cleanup(s.Request(Requests{Network: ovn.SwitchRef{Name: "gone"}}))
				s.nameChassis("hv1")
			}
			aim(s)
			is := func(who, nets string, stage int, names string) func(*ovn.Snapshot) string {
				return func(s *ovn.Snapshot) string {
					table, _, _ := s.DNSStage()
					if g, n := guests(s), networks(s); g != who || n != nets || table != stage {
						return fmt.Sprintf("guests %q of %q, stage %d; want %q of %q, %d", g, n, table, who, nets, stage)
					}
					return lookups(names)(s)
				}
			}
			eventually(t, s, is("p1 p2", "a gone", 20, `
				a db.test. = 10.0.0.20
				a p2. = 10.0.0.2`))
			r.inOutage(s, sbFile, `["OVN_Southbound",{"op":"delete","table":"Chassis","where":[]},`+
				`{"op":"insert","table":"Encap","uuid-name":"e","row":{"type":"geneve","ip":"127.0.0.1","chassis_name":"hv1"}},`+
				`{"op":"insert","table":"Chassis","uuid-name":"c","row":{"name":"hv1","encaps":["named-uuid","e"]}},`+
				`{"op":"update","table":"Port_Binding","where":[["logical_port","==","p1"]],"row":{"chassis":["named-uuid","c"]}},`+
				`{"op":"delete","table":"Port_Binding","where":[["logical_port","==","p2"]]},`+
				`{"op":"delete","table":"Datapath_Binding","where":[["tunnel_key","==",2]]},`+
				`{"op":"delete","table":"DNS","where":[]},`+
				`{"op":"delete","table":"Logical_Flow","where":[]},`+
				`{"op":"insert","table":"Logical_Flow","row":{"pipeline":"ingress","table_id":23,"match":"1","actions":"next","external_ids":["map",[["stage-name","`+topology.StageName+`"]]]}}]`)
			eventually(t, s, is("p1", "a", 23, `
				a db.test. =
				a p1. = 10.0.0.1
				a p2. =`))
			r.keepsWhatIsThere(s, c, aim)
		})
	}
}
