// SPDX-License-Identifier: Apache-2.0

package ovsdb_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
)

// A monitor begins without the rows of a table with conditions, which a server would copy whole to
// look at each, and asks for them by a change.
func TestFill(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		where []ovsdb.Condition
		begin string // of the request
		fill  string // the change behind it; empty for none
	}{
		{"all rows", nil, `[{"columns":["name","map"],"where":[true]}]`, ""},
		{"no rows", []ovsdb.Condition{},
			`[{"columns":["name","map"],"where":[["_uuid","==",["uuid","00000000-0000-0000-0000-000000000000"]]],"select":{"initial":false}}]`, ""},
		{"some rows", []ovsdb.Condition{{Column: "name", Function: "==", Value: "a"}},
			`[{"columns":["name","map"],"where":[["_uuid","==",["uuid","00000000-0000-0000-0000-000000000000"]]],"select":{"initial":false}}]`, `[{"where":[["name","==","a"]]}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := make(chan [2]string, 10)
			r := newReplica()
			start(t, r, func(cfg *ovsdb.Config) {
				fakeTables(cfg)
				cfg.ProbeInterval, cfg.Tables[0].Where = time.Minute, tt.where
				cfg.Receiver = plain{r}
			}, fake(t, script(func(req request, _ int) string {
				var params []json.RawMessage
				_ = json.Unmarshal(req.Params, &params)
				var tables map[string]json.RawMessage
				_ = json.Unmarshal(params[2], &tables)
				got <- [2]string{req.Method, string(tables["Thing"])}
				return empty(req, 0)
			})))
			r.waitSynced(t)
			close(got)
			var all [][2]string
			for call := range got {
				all = append(all, call)
			}
			want := [][2]string{{"monitor_cond_since", tt.begin}}
			if tt.fill != "" {
				want = append(want, [2]string{"monitor_cond_change", tt.fill})
			}
			if len(all) != len(want) {
				t.Fatalf("got %q, want %q", all, want)
			}
			for i := range want {
				if all[i] != want[i] {
					t.Errorf("got %q, want %q", all[i], want[i])
				}
			}
		})
	}
}

// Rows that arrive while the rows of the conditions are requested are committed with them.
func TestChangeWhileFilling(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, thingSchema)
	s.Transact(t, "Things", insert("a", nil), insert("b", object{"num": 7}))
	r := newReplica()
	start(t, r, func(cfg *ovsdb.Config) {
		thing := thingTable
		thing.Where = []ovsdb.Condition{{Column: "num", Function: "==", Value: 7}}
		cfg.Tables = []ovsdb.TableRequest{thing, otherTable}
	}, s.Endpoint)
	r.waitSynced(t)
	r.wait(t, "the row of the condition", func() bool { return len(r.things) == 1 })
	s.Transact(t, "Things", update("a", object{"num": 7}))
	r.wait(t, "the row that comes to match", func() bool { return len(r.things) == 2 })
}

// A condition on a column that is not asked for would have the server read beyond the rows it has
// kept, see ovsdb.Condition.
func TestConditionOnOtherColumn(t *testing.T) {
	t.Parallel()
	r := newReplica()
	start(t, r, func(cfg *ovsdb.Config) {
		fakeTables(cfg)
		cfg.Tables[0].Where = []ovsdb.Condition{{Column: "other", Function: "==", Value: "a"}}
	}, fake(t, script(empty)))
	r.waitDown(t, `condition on column "other", which is not asked for`)
	if events := strings.Join(r.takeEvents(), "; "); strings.Contains(events, "commit") {
		t.Errorf("events: %s", events)
	}
}
