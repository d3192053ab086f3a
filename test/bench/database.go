// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// database is a connection to an ovsdb-server that commits transactions (RFC 7047,
// section 4.1.3): a tool like ovn-nbctl takes longer to start than what is
// measured.
type database struct {
	b        *bench
	name     string
	conn     net.Conn
	r        *json.Decoder
	patience time.Duration // of a reply
}

func (b *bench) open(endpoint, name string) *database {
	conn, err := net.Dial("unix", strings.TrimPrefix(endpoint, "unix:"))
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	return &database{b: b, name: name, conn: conn, r: json.NewDecoder(bufio.NewReader(conn)), patience: time.Minute}
}

// openPatient opens Southbound on a server that may be busy for long.
func (b *bench) openPatient(endpoint string) *database {
	d := b.open(endpoint, "OVN_Southbound")
	d.patience = patienceOfCloud
	return d
}

func (d *database) close() { _ = d.conn.Close() }

// transact commits and returns when the server has said so.
func (d *database) transact(ops ...map[string]any) []json.RawMessage {
	params := []any{d.name}
	for _, op := range ops {
		params = append(params, op)
	}
	if err := json.NewEncoder(d.conn).Encode(map[string]any{"method": "transact", "params": params, "id": 1}); err != nil {
		d.b.t.Fatalf("%s: %v", d.name, err)
	}
	if err := d.conn.SetReadDeadline(time.Now().Add(d.patience)); err != nil {
		d.b.t.Fatalf("%s: %v", d.name, err)
	}
	for {
		var reply struct {
			Method string            `json:"method"`
			Result []json.RawMessage `json:"result"`
		}
		if err := d.r.Decode(&reply); err != nil {
			d.b.t.Fatalf("%s: %v", d.name, err)
		}
		if reply.Method != "" {
			continue // an echo request: the connection does not live that long
		}
		for _, r := range reply.Result {
			if bytes.Contains(r, []byte(`"error"`)) {
				d.b.t.Fatalf("%s: %s", d.name, r)
			}
		}
		return reply.Result
	}
}

// ovsMap is a map column.
func ovsMap(kv ...[2]string) []any {
	if kv == nil {
		kv = [][2]string{}
	}
	return []any{"map", kv}
}

func insert(table, name string, row map[string]any) map[string]any {
	op := map[string]any{"op": "insert", "table": table, "row": row}
	if name != "" {
		op["uuid-name"] = name
	}
	return op
}

// size of a Southbound database.
type size struct{ switches, ports, names int } // ports and names of one switch

func (s size) String() string {
	return fmt.Sprintf("%d ports, %d names", s.switches*s.ports, s.switches*s.names)
}

// recordName is that of a record.
func recordName(sw, i int) string { return fmt.Sprintf("vm%d-%d.example.org", sw, i) }

// fill writes a database of a size: switches with their ports and one DNS row each.
// The ports are p<switch>-<number>.
func (b *bench) fill(l *lab.Lab, s size) *database {
	d := b.open(l.SB, "OVN_Southbound")
	for sw := range s.switches {
		ops := []map[string]any{insert("Datapath_Binding", "dp", map[string]any{
			"tunnel_key": sw + 1,
			"external_ids": ovsMap([2]string{"name", fmt.Sprintf("sw%d", sw)},
				[2]string{"logical-switch", fmt.Sprintf("11111111-1111-4111-8111-%012d", sw)}),
		})}
		for p := range s.ports {
			ops = append(ops, insert("Port_Binding", "", map[string]any{
				"logical_port": portName(sw, p), "tunnel_key": p + 1, "datapath": []string{"named-uuid", "dp"},
				"mac":     fmt.Sprintf("02:00:00:%02x:%02x:%02x 10.%d.%d.%d", sw>>8, sw&255, p, sw>>8, sw&255, p),
				"options": ovsMap([2]string{"hostname", fmt.Sprintf("host%d", p)}),
			}))
		}
		var records [][2]string
		for i := range s.names {
			records = append(records, [2]string{recordName(sw, i), fmt.Sprintf("10.%d.%d.%d", i>>8, sw&255, i&255)})
		}
		ops = append(ops, insert("DNS", "", map[string]any{"datapaths": []string{"named-uuid", "dp"}, "records": ovsMap(records...)}))
		d.transact(ops...)
	}
	return d
}

func portName(sw, p int) string { return fmt.Sprintf("p%d-%d", sw, p) }

// setRecord changes one record of a switch's row.
func (d *database) setRecord(sw, i int, address string) {
	d.changeRecord([]any{"records", "includes", ovsMap([2]string{recordName(sw, 0), recordZero(sw)})}, recordName(sw, i), address)
}

// changeRecord changes one record of the DNS row for which a condition holds.
func (d *database) changeRecord(row []any, name, address string) {
	d.transact(map[string]any{"op": "mutate", "table": "DNS", "where": []any{row}, "mutations": []any{
		[]any{"records", "delete", []any{"set", []string{name}}},
		[]any{"records", "insert", ovsMap([2]string{name, address})},
	}})
}

// recordZero is the address of a row's first record, which nobody changes.
func recordZero(sw int) string { return fmt.Sprintf("10.0.%d.0", sw&255) }

// addChassis enters a chassis and returns its reference.
func (d *database) addChassis(name string) any {
	results := d.transact(
		insert("Encap", "encap", map[string]any{"type": "geneve", "ip": "127.0.0.1", "chassis_name": name}),
		insert("Chassis", "", map[string]any{"name": name, "hostname": name, "encaps": []string{"named-uuid", "encap"}}))
	return d.inserted(results[1])
}

// inserted is the reference of a row, by the result of its insertion.
func (d *database) inserted(result json.RawMessage) any {
	var row struct{ UUID any }
	if err := json.Unmarshal(result, &row); err != nil {
		d.b.t.Fatalf("%v", err)
	}
	return row.UUID
}

// addDNS gives a switch that northd has made a DNS row with guestRecords records, and
// returns its reference.
func (d *database) addDNS(l *lab.Lab, sw string) any {
	var records [][2]string
	for i := range guestRecords {
		records = append(records, [2]string{recordName(0, i), fmt.Sprintf("10.0.0.%d", i)})
	}
	dp := strings.TrimSpace(l.SBCTL("--bare", "--columns=_uuid", "find", "Datapath_Binding", "external_ids:name="+sw))
	return d.inserted(d.transact(insert("DNS", "", map[string]any{"datapaths": []string{"uuid", dp}, "records": ovsMap(records...)}))[0])
}

// bind has a port on a chassis, or on none.
func (d *database) bind(port string, chassis any) {
	if chassis == nil {
		chassis = []any{"set", []any{}}
	}
	d.transact(map[string]any{
		"op": "update", "table": "Port_Binding", "where": []any{[]any{"logical_port", "==", port}}, "row": map[string]any{"chassis": chassis},
	})
}
