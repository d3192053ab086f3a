// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"iter"
	"maps"
	"slices"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Table is the rows of one table of a database, as records.
type Table[R any] struct {
	request ovsdb.TableRequest
	columns []Column[R]
	// index has, for each of columns, its place in the request.
	index   []int
	changed func(id ovsdb.UUID, old, next *R)

	rows    map[ovsdb.UUID]*R
	version uint64
	// unseen has, from Begin to Sweep, the rows that have not come since.
	unseen map[ovsdb.UUID]struct{}
}

// NewTable returns an empty table. where are the conditions that hold from the start,
// see ovsdb.TableRequest. changed is called when a row has come (old is nil), has
// another value in one of the columns, or is gone (next is nil); the table has been
// updated by then.
func NewTable[R any](name string, where []ovsdb.Condition, changed func(id ovsdb.UUID, old, next *R), columns ...Column[R]) *Table[R] {
	t := &Table[R]{
		request: ovsdb.TableRequest{Table: name, Where: where},
		columns: columns, changed: changed, rows: make(map[ovsdb.UUID]*R),
	}
	for _, c := range columns {
		list := &t.request.Columns
		if c.optional {
			list = &t.request.Optional
		}
		if !slices.Contains(*list, c.name) {
			*list = append(*list, c.name)
		}
	}
	// A row has the optional columns after the others.
	all := slices.Concat(t.request.Columns, t.request.Optional)
	for _, c := range columns {
		t.index = append(t.index, slices.Index(all, c.name))
	}
	return t
}

// Optional returns the table as one that the schema of the server may lack: it has no rows
// then.
func (t *Table[R]) Optional() *Table[R] {
	t.request.AllowMissing = true
	return t
}

// Name is the name of the table in the schema.
func (t *Table[R]) Name() string { return t.request.Table }

// Request says what is to be read of the table.
func (t *Table[R]) Request() ovsdb.TableRequest { return t.request }

// Get returns a record, nil if there is none. It must not be altered.
func (t *Table[R]) Get(id ovsdb.UUID) *R { return t.rows[id] }

// Len is the number of records.
func (t *Table[R]) Len() int { return len(t.rows) }

// Version counts the changes of records. While it stays, the records do too.
func (t *Table[R]) Version() uint64 { return t.version }

// All returns the records by their UUIDs, in no order.
func (t *Table[R]) All() iter.Seq2[ovsdb.UUID, *R] { return maps.All(t.rows) }

// Put sets the record of a UUID; nil removes it. It is for tests, which have no rows of a
// database. The record must not be altered afterwards.
func (t *Table[R]) Put(id ovsdb.UUID, record *R) {
	old := t.rows[id]
	if old == record {
		return
	}
	if record == nil {
		delete(t.rows, id)
	} else {
		t.rows[id] = record
	}
	t.version++
	t.changed(id, old, record)
}

// Apply takes one row of an update. The row may be nil for ovsdb.Delete.
func (t *Table[R]) Apply(id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	delete(t.unseen, id)
	old := t.rows[id]
	if op == ovsdb.Delete {
		t.Put(id, nil)
		return
	}
	next := new(R)
	if old != nil {
		*next = *old
	}
	// Only a change leaves out columns: they are as they were.
	all, differs := op == ovsdb.Insert || old == nil, old == nil
	for i, c := range t.columns {
		col := t.index[i]
		if !all && !row.Has(col) || !c.set(id, next, row, col) {
			continue
		}
		differs = true
		if c.then != nil {
			c.then(id, next)
		}
	}
	if differs {
		t.Put(id, next)
	}
}

// Begin marks all rows as unseen: the database is about to tell all of them.
func (t *Table[R]) Begin() {
	t.unseen = make(map[ovsdb.UUID]struct{}, len(t.rows))
	for id := range t.rows {
		t.unseen[id] = struct{}{}
	}
}

// Sweep removes the rows that are still unseen: the database has told all it has.
func (t *Table[R]) Sweep() {
	unseen := t.unseen
	t.unseen = nil
	for id := range unseen {
		t.Apply(id, ovsdb.Delete, nil)
	}
}

// Tables are the tables of one database.
type Tables []anyTable

// anyTable is a Table of any record.
type anyTable interface {
	Name() string
	Request() ovsdb.TableRequest
	Apply(id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row)
	Begin()
	Sweep()
}

// Requests says what is to be read of the database.
func (t Tables) Requests() (all []ovsdb.TableRequest) {
	for _, table := range t {
		all = append(all, table.Request())
	}
	return all
}

// Apply takes one row of an update, of the table of that name.
func (t Tables) Apply(name string, id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	for _, table := range t {
		if table.Name() == name {
			table.Apply(id, op, row)
		}
	}
}

// Begin marks the rows of all tables as unseen.
func (t Tables) Begin() {
	for _, table := range t {
		table.Begin()
	}
}

// Sweep removes the rows that are still unseen, table by table in their order.
func (t Tables) Sweep() {
	for _, table := range t {
		table.Sweep()
	}
}
