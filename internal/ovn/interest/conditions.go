// SPDX-License-Identifier: Apache-2.0

package interest

import (
	"cmp"
	"slices"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// clause requests the rows with one value in a column. Its JSON is part of the saved state. At most one of
// ID, Number and Text is set; Text of a map has a Key.
type clause struct {
	Column   string
	Includes bool       `json:",omitempty"`
	Key      string     `json:",omitempty"`
	Text     string     `json:",omitempty"`
	Number   int64      `json:",omitempty"`
	ID       ovsdb.UUID `json:",omitzero"`
}

var everyRow clause

func RowWithID(id ovsdb.UUID) clause           { return idIs("_uuid", id) }
func textIs(column, text string) clause        { return clause{Column: column, Text: text} }
func idIs(column string, id ovsdb.UUID) clause { return clause{Column: column, ID: id} }
func idIn(column string, id ovsdb.UUID) clause { return clause{Column: column, Includes: true, ID: id} }
func keyIs(column, key, text string) clause {
	return clause{Column: column, Includes: true, Key: key, Text: text}
}

func (c clause) condition() ovsdb.Condition {
	out := ovsdb.Condition{Column: c.Column, Function: "==", Value: c.Text}
	if c.Includes {
		out.Function = "includes"
	}
	switch {
	case c.Key != "":
		out.Value = map[string]string{c.Key: c.Text}
	case c.Number != 0:
		out.Value = c.Number
	case c.ID != ovsdb.UUID{}:
		out.Value = c.ID
	}
	return out
}

func compareClauses(a, b clause) int {
	return cmp.Or(
		cmp.Compare(a.Column, b.Column), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Text, b.Text),
		cmp.Compare(a.Number, b.Number), a.ID.Compare(b.ID),
	)
}

// Conditions are the clauses of each table, of which a row matches any. The conditions of a table without an
// entry stay as they are.
type Conditions map[string][]clause

// A table without clauses sends no rows.
func (c Conditions) ask(table string, clauses ...clause) {
	c[table] = append(c[table], clauses...)
}

func askEach[V any](c Conditions, table string, values []V, of func(V) clause) {
	for _, v := range values {
		c.ask(table, of(v))
	}
	c.ask(table)
}

// Sort drops duplicates. The methods below need sorted clauses.
func (c Conditions) Sort() Conditions {
	for table, clauses := range c {
		slices.SortFunc(clauses, compareClauses)
		c[table] = slices.Compact(clauses)
	}
	return c
}

func (c Conditions) Has(table string, of clause) bool {
	_, ok := slices.BinarySearchFunc(c[table], of, compareClauses)
	return ok
}

func (c Conditions) ids(table, column string) (all []ovsdb.UUID) {
	for _, of := range c[table] {
		if of.Column == column {
			all = append(all, of.ID)
		}
	}
	return all
}

// includes may report false although c requests all rows that other requests.
func (c Conditions) includes(other Conditions) bool {
	for table, clauses := range other {
		if !includes(c[table], clauses, compareClauses) {
			return false
		}
	}
	return true
}

func (c Conditions) isEmpty() bool {
	for _, clauses := range c {
		if len(clauses) > 0 {
			return false
		}
	}
	return true
}

func (c Conditions) Requests() map[string][]ovsdb.Condition {
	all := make(map[string][]ovsdb.Condition, len(c))
	for table, clauses := range c {
		if slices.Contains(clauses, everyRow) {
			all[table] = nil
			continue
		}
		all[table] = make([]ovsdb.Condition, len(clauses))
		for i, of := range clauses {
			all[table][i] = of.condition()
		}
	}
	return all
}

func includes[E any](set, other []E, compare func(a, b E) int) bool {
	for _, e := range other {
		n, ok := slices.BinarySearchFunc(set, e, compare)
		if !ok {
			return false
		}
		set = set[n+1:]
	}
	return true
}
