// SPDX-License-Identifier: Apache-2.0

package ovsdb_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
)

// Each query gets the rows for which all of its conditions are true, from the first endpoint that answers.
func TestSelect(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, thingSchema)
	for _, row := range []map[string]any{
		{"name": "one", "num": 1, "map": []any{"map", [][2]string{{"k", "v"}, {"l", "w"}}}},
		{"name": "two", "num": 1},
		{"name": "three", "num": 2},
	} {
		s.Transact(t, "Things", map[string]any{"op": "insert", "table": "Thing", "row": row})
	}
	cfg := ovsdb.Config{Database: "Things"}
	for _, text := range []string{"unix:/nonexistent/s", s.Endpoint} {
		e, err := endpoint.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Endpoints = append(cfg.Endpoints, e)
	}
	where := func(name string, num int) []ovsdb.Condition {
		return []ovsdb.Condition{{Column: "num", Function: "==", Value: num}, {Column: "name", Function: "!=", Value: name}, {Column: "ref", Function: "==", Value: []ovsdb.UUID{}}}
	}
	query := func(w []ovsdb.Condition) ovsdb.Query {
		return ovsdb.Query{Table: "Thing", Columns: []string{"name", "map"}, Where: w}
	}
	results, err := ovsdb.Select(t.Context(), cfg, query(where("two", 1)), query(where("x", 3)), query(nil))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, text := range results {
		var all []struct {
			Name string
			Map  ovsdb.StringMap
		}
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
		names := map[string]ovsdb.StringMap{}
		for _, row := range all {
			names[row.Name] = row.Map
		}
		line, err := json.Marshal(names)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(line))
	}
	const want = `{"one":{"k":"v","l":"w"}}|{}|{"one":{"k":"v","l":"w"},"three":{},"two":{}}`
	if strings.Join(got, "|") != want {
		t.Errorf("%q, want %q", got, want)
	}
	q := query(nil)
	q.Columns = []string{"absent"}
	if _, err := ovsdb.Select(t.Context(), cfg, q); err == nil || !strings.Contains(err.Error(), "absent") || !strings.Contains(err.Error(), "/nonexistent/s") {
		t.Errorf("a column that is not there: %v", err)
	}
	cfg.Database = "Nothing"
	if _, err := ovsdb.Select(t.Context(), cfg, query(nil)); err == nil {
		t.Error("no error for a database that the server does not have")
	}
}

// A map that is none is an error.
func TestStringMap(t *testing.T) {
	for _, text := range []string{`["set",[]]`, `{}`, `"map"`, `["map",{}]`, `["map",[["a",1]]]`} {
		var m ovsdb.StringMap
		if err := json.Unmarshal([]byte(text), &m); err == nil {
			t.Errorf("%s: %v", text, m)
		}
	}
}
