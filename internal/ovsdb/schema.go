// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"encoding/json"
	"fmt"
)

// kind is an atomic type (RFC 7047 section 3.2).
type kind uint8

const (
	kindNone kind = iota
	kindString
	kindInteger
	kindBoolean
	kindUUID
)

var kinds = map[string]kind{
	"string":  kindString,
	"integer": kindInteger,
	"boolean": kindBoolean,
	"uuid":    kindUUID,
}

// column is a requested column.
type column struct {
	index      int
	key, value kind // value is kindNone except in a map
	// many is set where more than one element is possible: only there does a
	// "modify" carry a difference.
	many bool
}

// table is a requested table: its columns that the server has.
type table struct {
	name    string
	names   []string
	columns map[string]column
	width   int // columns requested, present on the server or not
}

// schema is what is needed of a database schema (RFC 7047 section 3.2).
type schema struct {
	Tables map[string]struct {
		Columns map[string]struct {
			Type columnType `json:"type"`
		} `json:"columns"`
	} `json:"tables"`
}

type columnType struct {
	Key   baseType        `json:"key"`
	Value baseType        `json:"value"`
	Max   json.RawMessage `json:"max"`
}

func (t *columnType) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &t.Key)
	}
	type plain columnType
	return json.Unmarshal(b, (*plain)(t))
}

// baseType is a name, or an object with the name in its "type".
type baseType string

func (t *baseType) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(t))
	}
	var o struct {
		Type string `json:"type"`
	}
	err := json.Unmarshal(b, &o)
	*t = baseType(o.Type)
	return err
}

// tables matches requests with a schema.
func (s *schema) tables(database string, requests []TableRequest) (map[string]*table, error) {
	all := make(map[string]*table, len(requests))
	for _, req := range requests {
		have, ok := s.Tables[req.Table]
		if !ok {
			return nil, fmt.Errorf("database %q has no table %q", database, req.Table)
		}
		width := len(req.Columns) + len(req.Optional)
		t := &table{name: req.Table, columns: make(map[string]column, width), width: width}
		for i := range width {
			name, optional := "", i >= len(req.Columns)
			if optional {
				name = req.Optional[i-len(req.Columns)]
			} else {
				name = req.Columns[i]
			}
			def, ok := have.Columns[name]
			if !ok && optional {
				continue
			}
			if !ok {
				return nil, fmt.Errorf("database %q, table %q has no column %q", database, req.Table, name)
			}
			col := column{index: i, key: kinds[string(def.Type.Key)], value: kinds[string(def.Type.Value)]}
			if col.key == kindNone || col.value == kindNone && def.Type.Value != "" {
				return nil, fmt.Errorf("database %q, table %q: column %q has a type that is not supported", database, req.Table, name)
			}
			col.many = len(def.Type.Max) > 0 && string(def.Type.Max) != "1"
			t.columns[name] = col
			t.names = append(t.names, name)
		}
		all[req.Table] = t
	}
	return all, nil
}
