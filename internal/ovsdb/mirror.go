// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// Mirror stores all rows of a Receiver that uses a part of them, for DecodeRow. A nil Mirror stores nothing.
//
// Reset, Stage and Discard collect a transaction, which Apply writes. The goroutine of the Client calls these
// four; the owner's lock guards Apply, Rows and the result of Rows.
type Mirror struct {
	limit   int // of contents.size
	now     contents
	staged  contents
	scratch Row
}

// contents has rows by table. In Mirror.staged, nil is a deleted row.
type contents struct {
	rows map[string]map[UUID][]byte
	// size is the sum of all rows in bytes, for staged after Apply. Above the limit, over is set and nothing
	// is stored until Reset.
	size int
	over bool
	// all is set if the rows replace all others.
	all bool
}

const rowOverhead = 100

func NewMirror(limit int) *Mirror { return &Mirror{limit: limit} }

func (m *Mirror) Reset() {
	if m != nil {
		m.staged = contents{all: true}
	}
}

func (m *Mirror) Discard() {
	if m != nil {
		m.staged = contents{size: m.now.size, over: m.now.over}
	}
}

func (m *Mirror) Stage(table string, id UUID, op Op, row *Row) {
	if m == nil || m.staged.over {
		return
	}
	s := &m.staged
	old, staged := s.rows[table][id]
	if !staged && !s.all {
		old = m.now.rows[table][id]
	}
	if old != nil {
		s.size -= len(old) + rowOverhead
	}
	var next []byte
	switch {
	case op == Delete:
	case op == Insert || old == nil:
		next = appendRow(nil, row)
	default:
		next = m.merge(old, row)
	}
	if next != nil {
		s.size += len(next) + rowOverhead
	}
	if s.size > m.limit {
		s.over, s.rows = true, nil
		return
	}
	s.set(table, id, next)
}

func (c *contents) set(table string, id UUID, row []byte) {
	if c.rows == nil {
		c.rows = make(map[string]map[UUID][]byte)
	}
	if c.rows[table] == nil {
		c.rows[table] = make(map[UUID][]byte)
	}
	if row == nil && c.all {
		delete(c.rows[table], id)
	} else {
		c.rows[table][id] = row
	}
}

func (m *Mirror) Apply() {
	if m == nil {
		return
	}
	if s := m.staged; s.all || s.over {
		m.now = s
	} else {
		m.now.all, m.now.size = true, s.size
		for table, rows := range s.rows {
			for id, row := range rows {
				m.now.set(table, id, row)
			}
		}
	}
	m.Discard()
}

// Rows returns the rows by table, which the caller must not alter. ok is false if they exceeded the limit.
func (m *Mirror) Rows() (tables map[string]map[UUID][]byte, ok bool) {
	if m == nil || m.now.over {
		return nil, false
	}
	tables = make(map[string]map[UUID][]byte, len(m.now.rows))
	for name, rows := range m.now.rows {
		tables[name] = maps.Clone(rows)
	}
	return tables, true
}

// StageAll resets the Mirror and stages rows of another Mirror. The maps become the Mirror's.
func (m *Mirror) StageAll(tables map[string]map[UUID][]byte) {
	m.Reset()
	if m == nil {
		return
	}
	m.staged.rows = tables
	for _, rows := range tables {
		for _, row := range rows {
			m.staged.size += len(row) + rowOverhead
		}
	}
}

// A row is encoded as the present columns, then 0. A column is its index from 1 on, its width, the number of
// its elements and their atoms. An atom is the length of its text, the text and its number. All numbers are
// varints.

func appendRow(b []byte, r *Row) []byte {
	for col, c := range r.cells {
		if c.present {
			b = r.appendCell(b, col)
		}
	}
	return append(b, 0)
}

func (r *Row) appendCell(b []byte, col int) []byte {
	c := r.cells[col]
	b = appendCellHead(b, col, c.width, c.n)
	for _, a := range r.atoms[c.first : c.first+c.n*c.width] {
		b = r.appendAtom(b, a)
	}
	return b
}

func appendCellHead(b []byte, col int, width, n uint32) []byte {
	b = binary.AppendUvarint(b, uint64(col)+1)
	b = binary.AppendUvarint(b, uint64(width))
	return binary.AppendUvarint(b, uint64(n))
}

func (r *Row) appendAtom(b []byte, a atom) []byte {
	b = binary.AppendUvarint(b, uint64(a.n))
	b = append(b, r.bytes(a)...)
	return binary.AppendVarint(b, a.num)
}

func (m *Mirror) merge(old []byte, update *Row) []byte {
	if DecodeRow(old, &m.scratch, len(update.cells)) != nil {
		return old // never: appendRow made it
	}
	b := make([]byte, 0, len(old)+64)
	for col, c := range update.cells {
		switch {
		case c.present && !c.diff:
			b = update.appendCell(b, col)
		case c.present:
			b = m.scratch.appendDiff(b, col, update)
		case m.scratch.cells[col].present:
			b = m.scratch.appendCell(b, col)
		}
	}
	return append(b, 0)
}

type atomKey struct {
	text string
	num  int64
}

func (r *Row) key(a atom) atomKey { return atomKey{string(r.bytes(a)), a.num} }

// update has a difference, see Row.Diff.
func (r *Row) appendDiff(b []byte, col int, update *Row) []byte {
	c, d := r.cells[col], update.cells[col]
	width := d.width
	differs := make(map[atomKey]uint32, d.n)
	for i := range d.n {
		differs[update.key(update.atoms[d.first+i*width])] = i
	}
	var elements []byte
	n := uint32(0)
	add := func(of *Row, first uint32) {
		n++
		for _, a := range of.atoms[first : first+width] {
			elements = of.appendAtom(elements, a)
		}
	}
	for i := range c.n {
		first := c.first + i*width
		place, ok := differs[r.key(r.atoms[first])]
		if !ok {
			add(r, first)
			continue
		}
		at := d.first + place*width
		if width == 2 && r.key(r.atoms[first+1]) != update.key(update.atoms[at+1]) {
			add(update, at)
		}
		delete(differs, r.key(r.atoms[first]))
	}
	for i := range d.n {
		first := d.first + i*width
		if _, ok := differs[update.key(update.atoms[first])]; ok {
			add(update, first)
		}
	}
	return append(appendCellHead(b, col, width, n), elements...)
}

var errRow = errors.New("a saved row that can't be read")

type rowReader struct {
	b   []byte
	err error
}

func (r *rowReader) uvarint(limit int) int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > uint64(limit) {
		r.b, r.err = nil, errRow
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

func (r *rowReader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.b, r.err = nil, errRow
		return 0
	}
	r.b = r.b[n:]
	return v
}

// DecodeRow decodes a row of Mirror.Rows like an Insert, or returns an error.
func DecodeRow(b []byte, row *Row, columns int) error {
	row.reset(columns)
	r := rowReader{b: b}
	for last := 0; ; {
		col := r.uvarint(columns)
		if col == 0 || r.err != nil {
			break
		}
		width, n := r.uvarint(2), r.uvarint(len(r.b)) // two bytes an element at least
		if col <= last || width == 0 || n*width > len(r.b) {
			return errRow
		}
		last = col
		row.cells[col-1] = cell{first: uint32(len(row.atoms)), n: uint32(n), width: uint32(width), present: true}
		row.atoms = slices.Grow(row.atoms, n*width)
		for range n * width {
			length := r.uvarint(len(r.b))
			if r.err != nil || length > len(r.b) {
				return errRow
			}
			a := atom{off: uint32(len(row.text)), n: uint32(length)}
			row.text = append(row.text, r.b[:length]...)
			r.b = r.b[length:]
			a.num = r.varint()
			row.atoms = append(row.atoms, a)
		}
	}
	if r.err != nil || len(r.b) > 0 {
		return errRow
	}
	return nil
}
