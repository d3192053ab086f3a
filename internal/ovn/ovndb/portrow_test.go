// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// portTexts are columns of a port with texts that a row stores in their parsed form, and some that it can't.
var portTexts = []map[string]string{
	{},
	{"mac": `"02:00:00:00:00:01~10.0.0.1"`, "options:hostname": "vm", "external_ids:neutron\\:device_owner": `"compute:nova"`},
	{"mac": `"02:00:00:00:00:01~10.0.0.1~fd00::1"`, "options:hostname": "vm2", "external_ids:neutron\\:device_owner": `"compute:az"`},
	{"mac": `"02:00:00:00:00:01~10.0.0.1/24"`, "options:hostname": "VM2"},
	{"mac": `"02:00:00:00:00:01"`, "options:hostname": `"vm2."`, "external_ids:neutron\\:device_owner": `"network:dhcp"`},
	{"mac": `"02:00:00:00:00:01~10.0.0.2~10.0.0.1"`, "options:hostname": "a..b", "options:is-nf": "true"},
	{"mac": `"02:00:00:00:00:0A~10.0.0.1","02:00:00:00:00:01~10.0.0.2"`, "options:is-nf": "false"},
	{"mac": `"02:00:00:00:00:01~10.0.0.2",unknown`, "options:hostname": `"\"vm\""`, "options:ethtype": "802.11ad"},
	{"mac": `"02:00:00:00:00:0a~10.0.0.1"`, "options:hostname": "vm", "external_ids:neutron\\:device_owner": `"network:distributed"`},
	{"mac": "unknown", "options:peer": "p2"},
}

// TestPortTexts takes a row of Port_Binding from each of portTexts to each other one, by the differences that the
// database sends, and compares it with what a new reader makes of it.
func TestPortTexts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dp := r.insertSwitch("a", uuidA, 1)
	port := r.sbctl("create Port_Binding logical_port=p tunnel_key=1 datapath=" + dp)
	c := r.config(true, false)
	c.Monitor = All
	s := r.acquire(c)
	for i := range portTexts {
		for j := range portTexts {
			for _, at := range []int{i, j} {
				commands := []string{"clear Port_Binding " + port + " mac options external_ids"}
				columns := map[string][]string{}
				for key, value := range portTexts[at] {
					column, key, isMap := strings.Cut(key, ":")
					if isMap {
						value = `"` + strings.ReplaceAll(key, `\:`, ":") + `"=` + value
					}
					columns[column] = append(columns[column], value)
				}
				for column, values := range columns {
					commands = append(commands, fmt.Sprintf("set Port_Binding %s %s=%s", port, column, strings.Join(values, ",")))
				}
				r.sbctl(strings.Join(commands, " -- "))
			}
			want := ovn.Dump(r.fresh(c))
			eventually(t, s, func(s *ovn.Snapshot) string {
				if got := ovn.Dump(s); got != want {
					return fmt.Sprintf("%v, then %v:\n%s\nfrom scratch:\n%s", portTexts[i], portTexts[j], got, want)
				}
				return ""
			})
		}
	}
}

// TestPortRowsAgain: rows that come again as they were, as in a new connection, are no change.
func TestPortRowsAgain(t *testing.T) {
	s, send := newLockRig(t)
	var all []lockRow
	for i, mac := range []string{"", "02:00:00:00:00:01 10.0.0.1", "02:00:00:00:00:01 10.0.0.1/24", "02:00:00:00:00:0A 10.0.0.1", "unknown"} {
		for j, hostname := range []string{"", "vm", "VM", "vm.", `"vm"`, "a..b"} {
			for k, owner := range []string{"", "compute:nova", "network:dhcp"} {
				all = append(all, lockRowOf(s, topology.TablePort, ovsdb.UUID{byte(i), byte(j), byte(k)}, map[string]any{
					"logical_port": fmt.Sprint("p", i, j, k), "mac": mac, "options": []string{"hostname", hostname}, "external_ids": []string{ovn.OwnerKey, owner},
				}))
			}
		}
	}
	send(all)
	version, count := s.sb.Ports.Version(), s.sb.Ports.Len()
	send(all)
	if now := s.sb.Ports.Version(); now != version || count != len(all) {
		t.Errorf("%d changes, %d ports of %d", now-version, count, len(all))
	}
}

// TestSharedPorts: a Port shares the values of its row, and what its switch says with the other ports.
func TestSharedPorts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	r.nbctl("ls-add red -- lsp-add red a -- lsp-set-addresses a 02:00:00:00:00:01~10.0.0.1 -- set Logical_Switch_Port a options:hostname=vm external_ids:neutron\\:device_owner=\"compute:nova\" -- lsp-add red b -- lsp-set-addresses b 02:00:00:00:00:02~10.0.0.2")
	for _, nb := range []bool{false, true} {
		c := r.config(true, nb)
		c.Monitor = All
		source := r.acquire(c)
		snapshot := eventually(t, source, func(s *ovn.Snapshot) string {
			if s.Stats.Ports < 2 || len(s.PortByName("a").Addresses) == 0 || len(s.PortByName("b").Addresses) == 0 {
				return "not all there"
			}
			return ""
		})
		a, b := snapshot.PortByName("a"), snapshot.PortByName("b")
		source.mu.Lock()
		row := source.sb.PortNamed["a"]
		source.mu.Unlock()
		if a.LogicalPort != &row.LogicalPort || a.PortContext != b.PortContext || row.Rare != nil {
			t.Errorf("northbound %v: the port shares its row %v, its context %v, rare columns %v", nb, a.LogicalPort == &row.LogicalPort, a.PortContext == b.PortContext, row.Rare)
		}
	}
}
