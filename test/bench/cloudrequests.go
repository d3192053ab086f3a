// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"
)

// requestRounds is how often each request is measured.
const requestRounds = 5

// The columns that a node reads, by table.
var nodeColumns = map[string][]string{
	"Chassis":          {"name"},
	"Port_Binding":     {"logical_port", "datapath", "tunnel_key", "type", "parent_port", "tag", "mac", "options", "chassis", "external_ids", "additional_chassis", "requested_chassis"},
	"Datapath_Binding": {"tunnel_key", "external_ids"},
	"DNS":              {"records", "datapaths"},
	"Logical_Flow":     {"pipeline", "table_id", "controller_meter", "external_ids", "logical_datapath", "logical_dp_group"},
}

// nodeMonitor is the tables of a monitor with some conditions; those of others are for no rows.
// Without rows it begins without looking at any.
func nodeMonitor(rows bool, where map[string][]any) map[string]any {
	tables := make(map[string]any)
	for table, columns := range nodeColumns {
		request := map[string]any{"columns": columns, "where": []any{false}}
		if w, ok := where[table]; ok {
			request["where"] = w
		} else if !rows {
			request["select"] = map[string]bool{"initial": false}
		}
		tables[table] = []any{request}
	}
	return tables
}

func changeOf(where map[string][]any) map[string]any {
	tables := make(map[string]any)
	for table, w := range where {
		tables[table] = []any{map[string]any{"where": w}}
	}
	return tables
}

// requests measures what single requests of a node cost a server that has no other clients.
func (c *cloud) requests() {
	s := c.startServer("requests", c.copyOf("requests"))
	defer s.stop()
	node := c.layout.nodes / 2
	all := []any{true}
	stage := []any{clauseOf("external_ids", "includes", ovsMap([2]string{"stage-name", "ls_in_dns_lookup"}))}
	own := []any{
		clauseOf("chassis", "includes", []any{"set", []any{ref(kChassis, node)}}),
		clauseOf("additional_chassis", "includes", []any{"set", []any{ref(kChassis, node)}}),
	}
	ports := own
	var rows, dns []any
	for i := range min(20, c.layout.switches) {
		id := ref(kSwitch, i*c.layout.switches/20)
		ports = append(ports[:len(ports):len(ports)], clauseOf("datapath", "==", id))
		rows, dns = append(rows, clauseOf("_uuid", "==", id)), append(dns, clauseOf("datapaths", "includes", []any{"set", []any{id}}))
	}
	pb := func(w []any) map[string][]any { return map[string][]any{"Port_Binding": w} }
	chassis := map[string][]any{"Chassis": all}
	for _, r := range []struct {
		name          string
		rows          bool
		begin, before map[string][]any
		change        map[string][]any // nil to measure the beginning
	}{
		{"a monitor begins with the flows of the DNS stage", true, map[string][]any{"Chassis": all, "Logical_Flow": stage}, nil, nil},
		{"a monitor begins without rows", false, chassis, nil, nil},
		{"for the flows of the DNS stage", false, chassis, nil, map[string][]any{"Logical_Flow": stage}},
		{"for the ports of a chassis", false, chassis, nil, pb(own)},
		{"for the ports of 20 networks", false, chassis, pb(own), pb(ports)},
		{"for the ports of one network more", false, chassis, pb(ports[:len(ports)-1]), pb(ports)},
		{"for the datapaths and DNS rows of 20 networks", false, chassis, nil, map[string][]any{"Datapath_Binding": rows, "DNS": dns}},
	} {
		for range requestRounds {
			conn, err := dialController(s.socket)
			if err != nil {
				c.b.t.Fatalf("%v", err)
			}
			call := func(method string, params ...any) {
				if _, err := conn.call(method, params...); err != nil {
					c.b.t.Fatalf("%s: %v", r.name, err)
				}
			}
			cpu := c.b.cpu(s.proc.Pid)
			call("monitor_cond", "OVN_Southbound", "c", nodeMonitor(r.rows, r.begin))
			if r.before != nil {
				call("monitor_cond_change", "c", "c", changeOf(r.before))
			}
			if r.change != nil {
				cpu = c.b.cpu(s.proc.Pid)
				call("monitor_cond_change", "c", "c", changeOf(r.change))
			}
			c.put(tCloudRequest, c.peer("%s", r.name), milliseconds(c.b.cpu(s.proc.Pid)-cpu))
			_ = conn.conn.Close()
			time.Sleep(50 * time.Millisecond) // what the server does at the end
		}
	}
}
