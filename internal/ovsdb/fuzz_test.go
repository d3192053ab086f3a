// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// Whatever a server says its schema is: each column that is asked for has a place and
// a type that rows are decoded by, or there is an error.
func FuzzSchema(f *testing.F) {
	for _, file := range []string{"/usr/share/ovn/ovn-nb.ovsschema", "/usr/share/ovn/ovn-sb.ovsschema"} {
		if b, err := os.ReadFile(file); err == nil {
			f.Add(b)
		}
	}
	for _, text := range []string{
		`{"tables":{"T":{"columns":{"a":{"type":"string"},"b":{"type":{"key":"uuid","min":0,"max":"unlimited"}}}}}}`,
		`{"tables":{"T":{"columns":{"a":{"type":{"key":{"type":"string","enum":["set",["x"]]},"value":"uuid","max":1}},"b":{"type":"boolean"},"c":{"type":"integer"}}}}}`,
		`{"tables":{"T":{"columns":{"a":{"type":"real"},"b":{}}}}}`,
		`{"tables":{"T":{"columns":{"a":null,"b":{"type":{"key":null,"max":[]}}}}}}`,
		`{"tables":{"T":null}}`, `{"tables":[]}`, `[]`, `null`,
	} {
		f.Add([]byte(text))
	}
	requests := []TableRequest{{Table: "T", Columns: []string{"a", "b"}, Optional: []string{"c"}}}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s schema
		if json.Unmarshal(text, &s) != nil {
			return
		}
		tables, err := s.tables("D", requests)
		if err != nil {
			return
		}
		have := tables["T"]
		if len(tables) != 1 || have == nil || have.width != 3 || len(have.columns) != len(have.names) || len(have.names) < 2 {
			t.Fatalf("%+v", tables)
		}
		for name, c := range have.columns {
			if c.key == kindNone || name != string(rune('a'+c.index)) {
				t.Errorf("column %q: %+v", name, c)
			}
		}
		// Rows of it are taken or refused.
		m := &monitor{id: mainID, tables: tables, row: func(_ string, _ UUID, _ Op, row *Row) error {
			for col := range have.width {
				for i := range row.Len(col) {
					row.bytesAt(col, i)
					row.PairAt(col, i)
				}
			}
			return nil
		}}
		for _, value := range []string{`"x"`, `1`, `true`, `["uuid","` + testID + `"]`, `["set",["x"]]`, `["map",[["x",["uuid","` + testID + `"]]]]`} {
			d := decoder{maxRow: maxRow, scanner: newScanner(strings.NewReader(`{"id":1,"result":{"T":{"` + testID + `":{"initial":{"a":` + value + `}}}}}`)), initial: m}
			_, _ = d.next()
		}
	})
}

// For any value of an error: null is no error, all else is one.
func FuzzServerError(f *testing.F) {
	for _, text := range []string{
		`null`, `"unknown method"`, `{"error":"unknown column","details":"No column nocol."}`, `{"error":"\u0000\n"}`, `{"details":[]}`, `[1]`, `{`, ``, `"\ud83d"`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := newServerError("get_schema", text)
		if none := len(text) == 0 || string(text) == "null"; none != (err == nil) {
			t.Fatalf("%q: %v", text, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), `get_schema: the server answers "`) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// Whatever a server says of itself: it is of use only with a row, and one that says
// that the database is connected.
func FuzzServerRow(f *testing.F) {
	const row = `{"id":1,"result":{"Database":{"` + testID + `":{"initial":`
	for _, text := range []string{
		row + `{"name":"D","model":"clustered","connected":true,"cid":["uuid","` + testID + `"]}}}}}`,
		row + `{"name":"D","model":"standalone","connected":true,"cid":["set",[]]}}}}}` +
			`{"id":null,"method":"update2","params":["puntdns-server",{"Database":{"` + testID + `":{"modify":{"connected":false}}}}]}`,
		row + `{"name":"D","model":"clustered","connected":false}}}}}`,
		row + `{"name":"D","model":"standalone","connected":true}}}}}` +
			`{"id":null,"method":"update2","params":["puntdns-server",{"Database":{"` + testID + `":{"modify":{"connected":false}}}}]}`,
		row + `{"model":["set",["a","b"]],"connected":["set",[true,false]]}}}}}` +
			`{"id":null,"method":"update2","params":["puntdns-server",{"Database":{"` + testID + `":{"delete":null}}}]}`,
		row + `{"connected":99999999999999999999}}}}}`,
	} {
		for _, result := range []string{
			`[{"rows":[{"index":7}]}]`, `[{"rows":[{"index":["set",[]]}]}]`, `[{"rows":[{"index":-1}]}]`, `[{"rows":[]}]`,
			`[{"error":"not owner"}]`, `[{"rows":[{"index":99999999999999999999}]}]`,
		} {
			f.Add([]byte(text), []byte(result))
		}
	}
	f.Fuzz(func(t *testing.T, text, result []byte) {
		r := &serverRow{database: "D", clusterIndex: map[UUID]int64{}}
		m := &monitor{id: serverID, tables: serverTables, row: r.update}
		d := decoder{maxRow: maxRow, scanner: newScanner(bytes.NewReader(text)), updates: []*monitor{m}, initial: m}
		for {
			_, err := d.next()
			r.takeIndex(result)
			if ok := r.check() == nil; ok != (r.present && r.connected) {
				t.Fatalf("%+v: %v", r, r.check())
			}
			if behind := r.index < r.clusterIndex[r.cid]; r.isBehind() != (behind && r.hasIndex) {
				t.Fatalf("%+v: behind %v", r, r.isBehind())
			}
			if err != nil {
				return
			}
			before := r.clusterIndex[r.cid]
			r.noteRead()
			if r.clusterIndex[r.cid] < before || r.clusterIndex[r.cid] < r.index {
				t.Fatalf("%+v: %d was read before", r, before)
			}
		}
	})
}
