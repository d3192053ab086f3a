// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"encoding/json"
	"fmt"
	"slices"
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

type column struct {
	index      int
	key, value kind // value is kindNone except in a map
	// many is set if the column may have several elements. A "modify" then has a difference.
	many bool
}

type table struct {
	name    string
	names   []string // requested, and in the schema
	columns map[string]column
	missing []string // optional, and not in the schema
	width   int
}

type schema struct {
	Tables map[string]tableSchema `json:"tables"`
}

type tableSchema struct {
	Columns map[string]struct {
		Type columnType `json:"type"`
	} `json:"columns"`
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

func (s *schema) tables(database string, requests []TableRequest) (map[string]*table, error) {
	all := make(map[string]*table, len(requests))
	for _, req := range requests {
		have, ok := s.Tables[req.Table]
		if !ok && req.AllowMissing {
			continue
		}
		if !ok {
			return nil, fmt.Errorf("database %q has no table %q", database, req.Table)
		}
		t, err := have.table(database, req)
		if err != nil {
			return nil, err
		}
		all[req.Table] = t
	}
	return all, nil
}

func (s *tableSchema) table(database string, req TableRequest) (*table, error) {
	names := slices.Concat(req.Columns, req.Optional)
	t := &table{name: req.Table, columns: make(map[string]column, len(names)), width: len(names)}
	for i, name := range names {
		def, ok := s.Columns[name]
		if optional := i >= len(req.Columns); !ok && optional {
			t.missing = append(t.missing, name)
			continue
		}
		if !ok {
			return nil, fmt.Errorf("database %q, table %q has no column %q", database, req.Table, name)
		}
		col, ok := def.Type.column(i)
		if !ok {
			return nil, fmt.Errorf("database %q, table %q: column %q has a type that is not supported", database, req.Table, name)
		}
		t.columns[name] = col
		t.names = append(t.names, name)
	}
	return t, nil
}

func (t *columnType) column(index int) (c column, ok bool) {
	c = column{
		index: index,
		key:   kinds[string(t.Key)],
		value: kinds[string(t.Value)],
		many:  len(t.Max) > 0 && string(t.Max) != "1",
	}
	isMap := t.Value != ""
	return c, c.key != kindNone && (c.value != kindNone) == isMap
}
