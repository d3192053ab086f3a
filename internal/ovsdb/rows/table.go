// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"iter"
	"maps"
	"slices"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

type Table[R any] struct {
	request ovsdb.TableRequest
	columns []Column[R]
	index   []int
	changed func(id ovsdb.UUID, old, next *R)

	// The owner's lock guards rows and version. Only Apply and Put write them.
	rows    map[ovsdb.UUID]*R
	version uint64

	staged map[ovsdb.UUID]*R
	// unseen has the rows that were not staged since Reset; nil without a Reset.
	unseen map[ovsdb.UUID]struct{}
}

// NewTable returns an empty table. Apply calls changed after it has inserted (old is nil), changed or deleted
// (next is nil) a row.
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
	all := slices.Concat(t.request.Columns, t.request.Optional)
	for _, c := range columns {
		t.index = append(t.index, slices.Index(all, c.name))
	}
	return t
}

// Optional returns the table for servers whose schema may lack it.
func (t *Table[R]) Optional() *Table[R] {
	t.request.AllowMissing = true
	return t
}

func (t *Table[R]) Name() string { return t.request.Table }

func (t *Table[R]) Request() ovsdb.TableRequest { return t.request }

// Get returns a record or nil. The caller must not change it.
func (t *Table[R]) Get(id ovsdb.UUID) *R { return t.rows[id] }

func (t *Table[R]) Len() int { return len(t.rows) }

func (t *Table[R]) Version() uint64 { return t.version }

func (t *Table[R]) All() iter.Seq2[ovsdb.UUID, *R] { return maps.All(t.rows) }

// Put sets a record, which the caller must not change afterwards; nil removes it. Tests call Put without a
// database.
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

// Reset drops the staged records, and stages the removal of all rows that are not staged before Apply.
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

func (t *Table[R]) parse(id ovsdb.UUID, old *R, op ovsdb.Op, row *ovsdb.Row) *R {
	next := new(R)
	if old != nil {
		*next = *old
	}
	// Only an update omits columns, which are unchanged.
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

func (t *Table[R]) Discard() { t.staged, t.unseen = nil, nil }

func (t *Table[R]) Apply() {
	if len(t.rows) == 0 {
		t.rows = make(map[ovsdb.UUID]*R, len(t.staged)) // with its size, because the lock is held
	}
	for id := range t.unseen {
		t.Put(id, nil)
	}
	for id, record := range t.staged {
		t.Put(id, record)
	}
	t.Discard()
}

type Tables []anyTable

type anyTable interface {
	Name() string
	Request() ovsdb.TableRequest
	Reset()
	Stage(id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row)
	Discard()
	Apply()
}

func (t Tables) Requests() (all []ovsdb.TableRequest) {
	for _, table := range t {
		all = append(all, table.Request())
	}
	return all
}

func (t Tables) Reset() {
	for _, table := range t {
		table.Reset()
	}
}

func (t Tables) Stage(name string, id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	for _, table := range t {
		if table.Name() == name {
			table.Stage(id, op, row)
		}
	}
}

func (t Tables) Discard() {
	for _, table := range t {
		table.Discard()
	}
}

func (t Tables) Apply() {
	for _, table := range t {
		table.Apply()
	}
}
