// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
)

// editedSchema gives a schema file's text with changed tables, in the notation of RFC
// 7047, section 3.2.
func editedSchema(t *testing.T, file string, edit func(tables map[string]any)) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(b, &schema); err != nil {
		t.Fatal(err)
	}
	delete(schema, "cksum")
	edit(schema["tables"].(map[string]any))
	if b, err = json.Marshal(schema); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func columnsOf(tables map[string]any, table string) map[string]any {
	return tables[table].(map[string]any)["columns"].(map[string]any)
}

// withColumns gives a schema file's text with further columns, by table.
func withColumns(t *testing.T, file string, add map[string]map[string]any) string {
	t.Helper()
	return editedSchema(t, file, func(tables map[string]any) {
		for table, columns := range add {
			have := columnsOf(tables, table)
			for name, typ := range columns {
				if have[name] != nil {
					t.Fatalf("%s.%s is there already", table, name)
				}
				have[name] = map[string]any{"type": typ}
			}
		}
	})
}

// TestNewerSchema: columns that OVN has got since 23.03 are read where they are:
// DNS.options with ovn-owned (24.03), and Datapath_Binding.type and nb_uuid, which
// take the place of external_ids:logical-switch (25.09). The DNS stage may stand
// anywhere.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	strings := map[string]any{"key": "string", "value": "string", "min": 0, "max": "unlimited"}
	optional := func(key string) any { return map[string]any{"key": key, "min": 0, "max": 1} }
	r := &rig{t, ovsdbtest.Start(t,
		withColumns(t, "/usr/share/ovn/ovn-nb.ovsschema", map[string]map[string]any{"DNS": {"options": strings}}),
		withColumns(t, "/usr/share/ovn/ovn-sb.ovsschema", map[string]map[string]any{
			"DNS":              {"options": strings},
			"Datapath_Binding": {"type": optional("string"), "nb_uuid": optional("uuid")},
		}))}
	const (
		red    = "00000000-0000-0000-0000-00000000000a"
		router = "00000000-0000-0000-0000-00000000000b"
	)
	r.server.Transact(t, topology.SouthboundName,
		rawJSON(`{"op":"insert","table":"Chassis","uuid-name":"self","row":{"name":"here","encaps":["named-uuid","encap"]}}`),
		rawJSON(`{"op":"insert","table":"Encap","uuid-name":"encap","row":{"type":"geneve","ip":"192.0.2.1","chassis_name":"here"}}`),
		rawJSON(`{"op":"insert","table":"Datapath_Binding","uuid-name":"dp","row":{"tunnel_key":7,"type":"logical-switch","nb_uuid":["uuid","`+red+`"],"external_ids":["map",[["name","red"]]]}}`),
		rawJSON(`{"op":"insert","table":"Datapath_Binding","row":{"tunnel_key":8,"type":"logical-router","nb_uuid":["uuid","`+router+`"],"external_ids":["map",[["name","r"]]]}}`),
		rawJSON(`{"op":"insert","table":"Port_Binding","row":{"logical_port":"vm1","datapath":["named-uuid","dp"],"tunnel_key":3,"mac":"02:00:00:00:00:01 10.0.0.1","chassis":["named-uuid","self"],"options":["map",[["hostname","vm1"]]]}}`),
		rawJSON(`{"op":"insert","table":"DNS","row":{"records":["map",[["db.internal","10.0.0.9"]]],"datapaths":["named-uuid","dp"],"options":["map",[["ovn-owned","true"]]]}}`),
		rawJSON(`{"op":"insert","table":"Logical_Flow","row":{"pipeline":"ingress","table_id":29,"priority":0,"match":"1","actions":"next;","external_ids":["map",[["stage-name","`+topology.StageName+`"]]]}}`),
	)
	for _, monitor := range []Monitor{Local, All} {
		t.Run(fmt.Sprint("monitor ", monitor), func(t *testing.T) {
			c := r.config(true, false)
			c.Monitor = monitor
			s := r.acquire(c)
			s.nameChassis("here")
			snapshot := eventually(t, s, lookups(`red db.internal. = !10.0.0.9
				red vm1. = 10.0.0.1`))
			if p := snapshot.Guest(7, 3); p == nil || p.Network != networkID(t, red) {
				t.Errorf("guest of keys 7 and 3: %+v", p)
			}
			if snapshot.Network(networkID(t, router)) != nil {
				t.Error("a router was taken for a network")
			}
			if table, cookies, ok := snapshot.DNSStage(); !ok || table != 29 || len(cookies) != 1 {
				t.Errorf("the DNS stage is %d %x %v", table, cookies, ok)
			}
		})
	}
}

// TestNetworkByNewerUUID: with Local a network is asked for by its UUID where that is in
// nb_uuid.
func TestNetworkByNewerUUID(t *testing.T) {
	t.Parallel()
	optional := func(key string) any { return map[string]any{"key": key, "min": 0, "max": 1} }
	r := &rig{t, ovsdbtest.Start(t, "/usr/share/ovn/ovn-nb.ovsschema", withColumns(t, "/usr/share/ovn/ovn-sb.ovsschema", map[string]map[string]any{
		"Datapath_Binding": {"type": optional("string"), "nb_uuid": optional("uuid")},
	}))}
	for i, uuid := range []string{uuidA, uuidB} {
		r.server.Transact(t, topology.SouthboundName, rawJSON(fmt.Sprintf(
			`{"op":"insert","table":"Datapath_Binding","row":{"tunnel_key":%d,"type":"logical-switch","nb_uuid":["uuid",%q],"external_ids":["map",[["name","red"]]]}}`, i+1, uuid)))
	}
	s := r.acquire(r.config(true, false))
	defer s.Request(Requests{Network: ovn.SwitchRef{ID: networkID(t, uuidB)}})()
	eventually(t, s, func(s *ovn.Snapshot) string {
		if n, _ := s.Resolve(ovn.SwitchRef{ID: networkID(t, uuidB)}); n == nil || s.Network(networkID(t, uuidA)) != nil {
			return "networks: " + networks(s)
		}
		return ""
	})
}

// withoutColumn gives a schema file's text without one column.
func withoutColumn(t *testing.T, file, table, column string) string {
	t.Helper()
	return editedSchema(t, file, func(tables map[string]any) { delete(columnsOf(tables, table), column) })
}

// A guest that migrates is one of each chassis that has it. A Southbound from before
// OVN 22.06 has no column for further ones.
func TestAdditionalChassis(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		for _, monitor := range []Monitor{Local, All} {
			t.Run(fmt.Sprintf("old %v, monitor %d", old, monitor), func(t *testing.T) {
				sb := "/usr/share/ovn/ovn-sb.ovsschema"
				if old {
					sb = withoutColumn(t, sb, topology.TablePort, "additional_chassis")
				}
				r := &rig{t, ovsdbtest.Start(t, "/usr/share/ovn/ovn-nb.ovsschema", sb)}
				r.server.Transact(t, topology.SouthboundName,
					rawJSON(`{"op":"insert","table":"Encap","uuid-name":"e1","row":{"type":"geneve","ip":"192.0.2.1","chassis_name":"hv1"}}`),
					rawJSON(`{"op":"insert","table":"Encap","uuid-name":"e2","row":{"type":"geneve","ip":"192.0.2.2","chassis_name":"hv2"}}`),
					rawJSON(`{"op":"insert","table":"Encap","uuid-name":"e3","row":{"type":"geneve","ip":"192.0.2.3","chassis_name":"hv3"}}`),
					rawJSON(`{"op":"insert","table":"Chassis","uuid":"`+rowID(1)+`","row":{"name":"hv1","encaps":["named-uuid","e1"]}}`),
					rawJSON(`{"op":"insert","table":"Chassis","uuid":"`+rowID(2)+`","row":{"name":"hv2","encaps":["named-uuid","e2"]}}`),
					rawJSON(`{"op":"insert","table":"Chassis","uuid":"`+rowID(3)+`","row":{"name":"hv3","encaps":["named-uuid","e3"]}}`),
					rawJSON(`{"op":"insert","table":"Datapath_Binding","uuid-name":"dp","row":{"tunnel_key":7,"external_ids":["map",[["name","red"],["logical-switch","`+uuidA+`"]]]}}`),
					rawJSON(`{"op":"insert","table":"Port_Binding","row":{"logical_port":"vm1","datapath":["named-uuid","dp"],"tunnel_key":3,"mac":"02:00:00:00:00:01 10.0.0.1","options":["map",[["hostname","vm1"]]]}}`),
				)
				c := r.config(true, false)
				c.Monitor = monitor
				s := r.acquire(c)
				s.nameChassis("hv2")
				bind := func(chassis string, additional ...string) {
					t.Helper()
					row := `"chassis":["set",[]]`
					if chassis != "" {
						row = `"chassis":["uuid","` + chassis + `"]`
					}
					if !old {
						row += `,"additional_chassis":["set",[`
						for i, id := range additional {
							if i > 0 {
								row += ","
							}
							row += `["uuid","` + id + `"]`
						}
						row += `]]`
					}
					r.server.Transact(t, topology.SouthboundName, rawJSON(`{"op":"update","table":"Port_Binding","where":[["logical_port","==","vm1"]],"row":{`+row+`}}`))
				}
				for _, step := range []struct {
					name       string
					chassis    string
					additional []string
					here       bool
				}{
					{"elsewhere", rowID(1), nil, false},
					{"on its way here", rowID(1), []string{rowID(2)}, !old},
					{"on its way here and to a third", rowID(1), []string{rowID(2), rowID(3)}, !old},
					{"on its way to the third", rowID(1), []string{rowID(3)}, false},
					{"released by the first", "", []string{rowID(2)}, !old},
					{"here", rowID(2), nil, true},
					{"on its way back", rowID(2), []string{rowID(1)}, true},
					{"back", rowID(1), nil, false},
				} {
					bind(step.chassis, step.additional...)
					want := ""
					if step.here {
						want = "vm1"
					}
					snapshot := eventually(t, s, func(s *ovn.Snapshot) string {
						if g := guests(s); g != want || !s.Settled {
							return fmt.Sprintf("%s: guests %q, want %q, settled %v", step.name, g, want, s.Settled)
						}
						return ""
					})
					if n := snapshot.NetworkByName("red"); step.here && (n == nil || !slices.Equal(n.Ports().Guests(), []*ovn.Port{snapshot.Guest(7, 3)})) {
						t.Errorf("%s: guest of keys 7 and 3: %+v", step.name, snapshot.Guest(7, 3))
					}
				}
			})
		}
	}
}
