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

	// The owner's lock guards rows and version. Only Apply and Put write them.
	rows    map[ovsdb.UUID]*R
	version uint64

	// staged has the records that Apply sets, nil for a row that is deleted. The map is nil
	// if there are none.
	staged map[ovsdb.UUID]*R
	// unseen has the rows that have not come since Reset; nil without a Reset.
	unseen map[ovsdb.UUID]struct{}
}

// NewTable returns an empty table. where are the conditions that hold from the start,
// see ovsdb.TableRequest. Apply calls changed when a row has come (old is nil), has
// another value in one of the columns, or is gone (next is nil). The table has the new
// record by then.
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

// Reset stages the removal of all rows that do not come before Apply. It drops what was
// staged before.
func (t *Table[R]) Reset() {
	t.Discard()
	t.unseen = make(map[ovsdb.UUID]struct{}, len(t.rows))
	for id := range t.rows {
		t.unseen[id] = struct{}{}
	}
}

// Stage parses one row of an update. The row may be nil for ovsdb.Delete.
func (t *Table[R]) Stage(id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	delete(t.unseen, id)
	old, staged := t.staged[id]
	if !staged {
		old = t.rows[id]
	}
	var next *R
	if op != ovsdb.Delete {
		next = t.parse(id, old, op, row)
	}
	if next == old {
		return
	}
	if t.staged == nil {
		t.staged = make(map[ovsdb.UUID]*R)
	}
	t.staged[id] = next
}

// parse returns the record of a row: old if no column has changed.
func (t *Table[R]) parse(id ovsdb.UUID, old *R, op ovsdb.Op, row *ovsdb.Row) *R {
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
	if !differs {
		return old
	}
	return next
}

// Discard drops what is staged.
func (t *Table[R]) Discard() { t.staged, t.unseen = nil, nil }

// Apply makes the table what is staged.
func (t *Table[R]) Apply() {
	if len(t.rows) == 0 {
		t.rows = make(map[ovsdb.UUID]*R, len(t.staged)) // at its size, as the lock is held
	}
	for id := range t.unseen {
		t.Put(id, nil)
	}
	for id, record := range t.staged {
		t.Put(id, record)
	}
	t.Discard()
}

// Tables are the tables of one database.
type Tables []anyTable

// anyTable is a Table of any record.
type anyTable interface {
	Name() string
	Request() ovsdb.TableRequest
	Reset()
	Stage(id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row)
	Discard()
	Apply()
}

// Requests says what is to be read of the database.
func (t Tables) Requests() (all []ovsdb.TableRequest) {
	for _, table := range t {
		all = append(all, table.Request())
	}
	return all
}

// Reset stages the removal of all rows that do not come before Apply.
func (t Tables) Reset() {
	for _, table := range t {
		table.Reset()
	}
}

// Stage parses one row of an update, of the table of that name.
func (t Tables) Stage(name string, id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	for _, table := range t {
		if table.Name() == name {
			table.Stage(id, op, row)
		}
	}
}

// Discard drops what is staged: the connection has ended.
func (t Tables) Discard() {
	for _, table := range t {
		table.Discard()
	}
}

// Apply makes the tables what is staged, one table after the other in their order.
func (t Tables) Apply() {
	for _, table := range t {
		table.Apply()
	}
}
