// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Condition is one clause: [column, function, value] (RFC 7047 section 5.1). The server sends a row if any
// clause of its table is true (ovsdb-server(7), "Monitor_cond"). A clause on a missing optional column is
// true for no row.
type Condition struct {
	// Column is a requested column, or "_uuid". Any other column can crash the server, which stores only
	// requested columns of changed rows, and reads past them (ovsdb_monitor_track_new_change_set in
	// ovsdb/monitor.c of Open vSwitch 3.1).
	Column string
	// Function is "==", "!=", "includes", "excludes", or for integers "<", "<=", ">", ">=".
	Function string
	// Value is a string, int, int64, bool, UUID, []string, []UUID or map[string]string.
	Value any
}

var (
	allRows = json.RawMessage("[true]")
	noRows  = json.RawMessage("[false]")
)

// withUUID adds a condition that no row matches, so that the server stores UUIDs from the start, see
// Condition.Column.
func withUUID(where json.RawMessage) json.RawMessage {
	const noRow = `[["_uuid","==",["uuid","00000000-0000-0000-0000-000000000000"]]`
	if bytes.Equal(where, noRows) {
		return json.RawMessage(noRow + "]")
	}
	return append([]byte(noRow+","), where[1:]...)
}

// nil selects all rows, an empty where none.
func encodeWhere(where []Condition, missing ...string) (json.RawMessage, error) {
	where = slices.DeleteFunc(slices.Clone(where), func(c Condition) bool { return slices.Contains(missing, c.Column) })
	switch {
	case where == nil:
		return allRows, nil
	case len(where) == 0:
		return noRows, nil
	}
	clauses := make([]any, 0, len(where))
	for _, c := range where {
		v, err := encodeValue(c.Value)
		if err != nil {
			return nil, fmt.Errorf("condition on column %q: %w", c.Column, err)
		}
		clauses = append(clauses, []any{c.Column, c.Function, v})
	}
	return json.Marshal(clauses)
}

// encodeValue returns the notation of RFC 7047 section 5.1.
func encodeValue(v any) (any, error) {
	switch v := v.(type) {
	case string, int, int64, bool:
		return v, nil
	case UUID:
		return [2]string{"uuid", v.String()}, nil
	case []string:
		return [2]any{"set", append([]string{}, v...)}, nil
	case []UUID:
		set := make([]any, 0, len(v))
		for _, id := range v {
			set = append(set, [2]string{"uuid", id.String()})
		}
		return [2]any{"set", set}, nil
	case map[string]string:
		pairs := make([][2]string, 0, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			pairs = append(pairs, [2]string{k, v[k]})
		}
		return [2]any{"map", pairs}, nil
	}
	return nil, fmt.Errorf("value of type %T: expected string, int, int64, bool, UUID, []string, []UUID or map[string]string", v)
}
