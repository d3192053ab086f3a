// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// cloudGroupFlows is how many rows of Logical_Flow are of a group of all switches: those that
// ovn-northd makes once for all of them.
const cloudGroupFlows = 200

// rowsOf is a transaction in the file of a standalone database (ovsdb(5)).
type rowsOf map[string]map[string]map[string]any

func (r rowsOf) put(table, id string, row map[string]any) {
	if r[table] == nil {
		r[table] = make(map[string]map[string]any)
	}
	r[table][id] = row
}

func ref(kind cloudKind, i int) []string { return []string{"uuid", cloudUUID(kind, i)} }

// writeCloud writes a standalone database, which ovsdb-tool makes a server of a cluster of.
func writeCloud(path string, schema []byte, l *cloudLayout) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	record := func(text []byte) {
		text = append(text, '\n')
		fmt.Fprintf(w, "OVSDB JSON %d %x\n", len(text), sha1.Sum(text))
		w.Write(text) // Flush tells its error
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, schema); err != nil {
		return errors.Join(err, f.Close())
	}
	record(compact.Bytes())
	write := func(r rowsOf) {
		text, merr := json.Marshal(r)
		err = errors.Join(err, merr)
		record(text)
	}
	write(l.nodeRows())
	for t := range l.tenants {
		write(l.tenantRows(t))
	}
	write(l.groupRows())
	return errors.Join(err, w.Flush(), f.Close())
}

func (l *cloudLayout) nodeRows() rowsOf {
	r := rowsOf{}
	r.put("SB_Global", cloudUUID(kGlobal, 0), map[string]any{"nb_cfg": 1, "options": ovsMap([2]string{"northd_internal_version", "bench"})})
	for n := range l.nodes {
		r.put("Encap", cloudUUID(kEncap, n), map[string]any{"type": "geneve", "ip": fmt.Sprintf("10.255.%d.%d", n>>8, n&255), "chassis_name": cloudNode(n)})
		r.put("Chassis", cloudUUID(kChassis, n), map[string]any{"name": cloudNode(n), "hostname": cloudNode(n), "encaps": ref(kEncap, n),
			"other_config": ovsMap([2]string{"ovn-bridge-mappings", "physnet1:br-ex"}, [2]string{"datapath-type", "system"}, [2]string{"iface-types", "erspan,geneve,gre,internal,vxlan"})})
		r.put("Chassis_Private", cloudUUID(kPrivate, n), map[string]any{"name": cloudNode(n), "chassis": ref(kChassis, n)})
	}
	return r
}

func (l *cloudLayout) tenantRows(t int) rowsOf {
	r := rowsOf{}
	for i := range cloudTenantSwitches {
		sw := t*cloudTenantSwitches + i
		r.put("Datapath_Binding", cloudUUID(kSwitch, sw), map[string]any{"tunnel_key": sw + 1,
			"external_ids": ovsMap([2]string{"name", fmt.Sprintf("sw%d", sw)}, [2]string{"logical-switch", cloudNetwork(sw)})})
		var records [][2]string
		var all []any
		for p := sw * cloudSwitchPorts; p < (sw+1)*cloudSwitchPorts; p++ {
			r.put("Port_Binding", cloudUUID(kPort, p), l.portRow(p))
			for k, flow := range l.flowRows(p) {
				r.put("Logical_Flow", cloudUUID(kFlow, p*l.flows+k), flow)
			}
			all = append(all, ref(kPort, p))
			records = append(records, [2]string{recordName(sw, p%cloudSwitchPorts), portAddress(p)})
		}
		r.put("DNS", cloudUUID(kDNS, sw), map[string]any{"datapaths": ref(kSwitch, sw), "records": ovsMap(records...)})
		r.put("Multicast_Group", cloudUUID(kFlood, sw), map[string]any{"datapath": ref(kSwitch, sw), "name": "_MC_flood", "tunnel_key": 32768, "ports": []any{"set", all}})
	}
	if !l.hasRouter(t) {
		return r
	}
	r.put("Datapath_Binding", cloudUUID(kRouter, t), map[string]any{"tunnel_key": l.switches + t + 1,
		"external_ids": ovsMap([2]string{"name", fmt.Sprintf("lr%d", t)}, [2]string{"logical-router", fmt.Sprintf("22222222-1111-4111-8111-%012d", t)})})
	for i := range cloudTenantSwitches {
		sw := t*cloudTenantSwitches + i
		here, there := fmt.Sprintf("sw%d-lr%d", sw, t), fmt.Sprintf("lr%d-sw%d", t, sw)
		r.put("Port_Binding", cloudUUID(kSwitchEnd, sw), map[string]any{"logical_port": here, "type": "patch", "datapath": ref(kSwitch, sw),
			"tunnel_key": 1000, "mac": "router", "options": ovsMap([2]string{"peer", there})})
		r.put("Port_Binding", cloudUUID(kRouterEnd, sw), map[string]any{"logical_port": there, "type": "patch", "datapath": ref(kRouter, t),
			"tunnel_key": i + 1, "mac": fmt.Sprintf("02:ff:00:%02x:%02x:01 10.%d.%d.1/24", sw>>8, sw&255, sw>>8, sw&255), "options": ovsMap([2]string{"peer", here})})
	}
	return r
}

func portAddress(p int) string {
	sw := p / cloudSwitchPorts
	return fmt.Sprintf("10.%d.%d.%d", sw>>8&255, sw&255, 10+p%cloudSwitchPorts)
}

// portRow is the row of Port_Binding of a port, as ovn-northd and ovn-controller leave it.
func (l *cloudLayout) portRow(p int) map[string]any {
	mac := fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", p>>24&255, p>>16&255, p>>8&255, p&255)
	row := map[string]any{
		"logical_port": cloudPort(p), "datapath": ref(kSwitch, l.switchOf(p)), "tunnel_key": p%cloudSwitchPorts + 1,
		"mac": mac + " " + portAddress(p), "port_security": mac + " " + portAddress(p), "up": l.node[p] >= 0,
		"options": ovsMap([2]string{"hostname", fmt.Sprintf("vm%d", p%cloudSwitchPorts)}, [2]string{"requested-chassis", ""}),
		"external_ids": ovsMap([2]string{"neutron:device_owner", "compute:nova"}, [2]string{"neutron:revision_number", "4"},
			[2]string{"neutron:cidrs", portAddress(p) + "/24"}, [2]string{"neutron:project_id", fmt.Sprintf("%032d", l.tenantOf(l.switchOf(p)))}),
	}
	if n := l.node[p]; n >= 0 {
		row["chassis"], row["encap"] = ref(kChassis, n), ref(kEncap, n)
	}
	return row
}

// flowRows are the rows of Logical_Flow of a port.
func (l *cloudLayout) flowRows(p int) (all []map[string]any) {
	for k := range l.flows {
		all = append(all, map[string]any{
			"logical_datapath": ref(kSwitch, l.switchOf(p)), "pipeline": []string{"ingress", "egress"}[k%2], "table_id": 2 + k, "priority": 50 + k,
			"match": fmt.Sprintf("inport == %q && eth.src == 02:00:00:00:%02x:%02x && ip4.src == %s", cloudPort(p), p>>8&255, p&255, portAddress(p)), "actions": "next;",
			"external_ids": ovsMap([2]string{"source", "northd.c:5000"}, [2]string{"stage-hint", fmt.Sprintf("%08x", p)}, [2]string{"stage-name", "ls_in_port_sec_l2"}),
		})
	}
	return all
}

// groupRows are the rows of Logical_Flow of all switches, those of the DNS stage among them.
func (l *cloudLayout) groupRows() rowsOf {
	r := rowsOf{}
	var all []any
	for sw := range l.switches {
		all = append(all, ref(kSwitch, sw))
	}
	r.put("Logical_DP_Group", cloudUUID(kGroup, 0), map[string]any{"datapaths": []any{"set", all}})
	for i := range cloudGroupFlows {
		stage, match := fmt.Sprintf("ls_in_stage%d", i), "1"
		if i < 2 {
			stage, match = "ls_in_dns_lookup", []string{"1", "udp.dst == 53"}[i]
		}
		r.put("Logical_Flow", cloudUUID(kGroupFlow, i), map[string]any{
			"logical_dp_group": ref(kGroup, 0), "pipeline": "ingress", "table_id": 22, "priority": 100 * (i % 2), "match": match, "actions": "next;",
			"external_ids": ovsMap([2]string{"source", "northd.c:6000"}, [2]string{"stage-name", stage}),
		})
	}
	return r
}
