// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
)

// Query selects rows for which all conditions are true, unlike a monitor, which needs any condition.
type Query struct {
	Table   string
	Columns []string
	Where   []Condition
}

// Select answers queries by one transaction over a connection of its own. It returns the rows of each query
// as JSON (RFC 7047 section 5.2.2), 4 MiB at most in all. Of Config only Database, Endpoints, TLS and the
// durations count.
func Select(ctx context.Context, cfg Config, queries ...Query) (results []json.RawMessage, err error) {
	operations := []any{cfg.Database}
	for _, q := range queries {
		where, err := encodeAll(q.Where)
		if err != nil {
			return nil, fmt.Errorf("table %q: %w", q.Table, err)
		}
		operations = append(operations, map[string]any{"op": "select", "table": q.Table, "columns": q.Columns, "where": where})
	}
	c := New(cfg)
	var all []error
	for _, e := range c.cfg.Endpoints {
		err := c.with(ctx, e, func(conn net.Conn) (err error) {
			results, err = newSession(ctx, c, conn, nil).selectRows(operations)
			return err
		})
		if err == nil {
			return results, nil
		}
		all = append(all, err)
	}
	return nil, cmp.Or(ctx.Err(), errors.Join(all...))
}

func encodeAll(where []Condition) (json.RawMessage, error) {
	if len(where) == 0 {
		return json.RawMessage("[]"), nil
	}
	return encodeWhere(where)
}

func (s *session) selectRows(operations []any) (rows []json.RawMessage, err error) {
	if err := s.watchServer(); err != nil {
		return nil, err
	}
	const method = "transact"
	text, err := s.call(method, operations...)
	if err != nil {
		return nil, err
	}
	var results []json.RawMessage
	if err := json.Unmarshal(text, &results); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	for _, text := range results {
		var result struct{ Rows, Error json.RawMessage }
		err := json.Unmarshal(text, &result)
		if err == nil && result.Error != nil {
			err = newServerError(method, text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		rows = append(rows, result.Rows)
	}
	if len(rows) != len(operations)-1 {
		return nil, fmt.Errorf("%s: the reply has %d results, expected %d", method, len(rows), len(operations)-1)
	}
	return rows, nil
}

type StringMap map[string]string

// UnmarshalJSON decodes ["map", [[key, value], ...]] (RFC 7047 section 5.1).
func (m *StringMap) UnmarshalJSON(text []byte) error {
	var kind string
	var pairs [][2]string
	if err := json.Unmarshal(text, &[]any{&kind, &pairs}); err != nil {
		return err
	}
	if kind != "map" {
		return fmt.Errorf("%.40q is no map", text)
	}
	*m = make(StringMap, len(pairs))
	for _, p := range pairs {
		(*m)[p[0]] = p[1]
	}
	return nil
}
