// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"cmp"
	"slices"
)

// Row is a row in the notation of <row-update2> (ovsdb-server(7)). It is valid until Receiver.Row returns, and
// so are the bytes that its methods return: the next row reuses the memory.
//
// Columns are identified by their index in TableRequest: Columns first, then Optional. In an Insert,
// an absent column has its default: the accessors return zero or nothing. In a Modify, an absent column
// is unchanged: use Has. In a Delete, all columns are absent.
//
// A present column has the new value, or a difference if Diff reports so. Text is not checked to be UTF-8.
type Row struct {
	cells []cell
	atoms []atom
	text  []byte
}

// cell is a column: a run of atoms, of pairs of atoms for a map.
type cell struct {
	first, n      uint32
	width         uint32 // atoms per element: 1, in a map 2
	present, diff bool
}

// atom is text or a UUID's bytes in Row.text, or an integer or boolean in num.
type atom struct {
	off, n uint32
	num    int64
}

func (r *Row) reset(columns int) {
	// The memory of one huge row is not reused, but collected.
	const maxReused = 1 << 20 // bytes
	if cap(r.text) > maxReused {
		r.text = nil
	}
	if cap(r.atoms) > maxReused/16 {
		r.atoms = nil
	}
	r.text, r.atoms = r.text[:0], r.atoms[:0]
	r.cells = slices.Grow(r.cells[:0], columns)[:columns]
	clear(r.cells)
}

func (r *Row) cell(col int) cell {
	if col < 0 || col >= len(r.cells) {
		return cell{}
	}
	return r.cells[col]
}

func (r *Row) at(col, i int) atom {
	c := r.cell(col)
	if i < 0 || i >= int(c.n*c.width) {
		return atom{}
	}
	return r.atoms[int(c.first)+i]
}

func (r *Row) bytes(a atom) []byte { return r.text[a.off : a.off+a.n : a.off+a.n] }

// Has reports whether the update has the column.
func (r *Row) Has(col int) bool { return r.cell(col).present }

// Diff reports whether the column has a difference to the last value, not a new value. It is true in a Modify
// for columns of more than one element. In a set, the difference toggles each of its elements. In a map, a
// pair that exists is removed, another value of an existing key replaces the value, and a new key is
// added (ovsdb_datum_diff in lib/ovsdb-data.c of Open vSwitch).
func (r *Row) Diff(col int) bool { return r.cell(col).diff }

// Len returns the number of elements of a set or of pairs of a map. It is 0 or 1 for an optional scalar.
func (r *Row) Len(col int) int { return int(r.cell(col).n) }

// Bytes returns the text of a scalar, empty for an absent one.
func (r *Row) Bytes(col int) []byte { return r.bytesAt(col, 0) }

// String returns a copy of Bytes.
func (r *Row) String(col int) string { return string(r.Bytes(col)) }

// Int returns an integer, 0 for an absent one.
func (r *Row) Int(col int) int64 { return r.at(col, 0).num }

// Bool returns a boolean, false for an absent one.
func (r *Row) Bool(col int) bool { return r.at(col, 0).num != 0 }

// UUID returns a reference, zero for an absent one.
func (r *Row) UUID(col int) UUID { return r.uuidAt(col, 0) }

// bytesAt returns element i of a set of strings.
func (r *Row) bytesAt(col, i int) []byte { return r.bytes(r.at(col, i)) }

// uuidAt returns element i of a set of references.
func (r *Row) uuidAt(col, i int) (id UUID) {
	copy(id[:], r.bytesAt(col, i))
	return id
}

// PairAt returns pair i of a map of strings to strings.
func (r *Row) PairAt(col, i int) (key, value []byte) {
	return r.bytes(r.at(col, 2*i)), r.bytes(r.at(col, 2*i+1))
}

// Strings returns a set of strings, sorted.
func (r *Row) Strings(col int) []string {
	all := make([]string, r.Len(col))
	for i := range all {
		all[i] = string(r.bytesAt(col, i))
	}
	slices.Sort(all)
	return all
}

// UUIDs returns a set of references, sorted.
func (r *Row) UUIDs(col int) []UUID {
	all := make([]UUID, r.Len(col))
	for i := range all {
		all[i] = r.uuidAt(col, i)
	}
	slices.SortFunc(all, UUID.Compare)
	return all
}

// PatchStrings returns the sorted set old after the update: old itself if the update does not have the
// column, otherwise a new slice.
func (r *Row) PatchStrings(col int, old []string) []string {
	return patchSet(r, col, old, (*Row).Strings, cmp.Compare[string])
}

// PatchUUIDs is PatchStrings for a set of references.
func (r *Row) PatchUUIDs(col int, old []UUID) []UUID {
	return patchSet(r, col, old, (*Row).UUIDs, UUID.Compare)
}

// patchSet is PatchStrings for a set that read returns sorted by compare.
func patchSet[T any](r *Row, col int, old []T, read func(*Row, int) []T, compare func(x, y T) int) []T {
	switch {
	case !r.Has(col):
		return old
	case !r.Diff(col):
		return read(r, col)
	}
	return toggle(old, read(r, col), compare)
}

// toggle returns the symmetric difference of two sorted sets.
func toggle[T any](a, b []T, compare func(x, y T) int) []T {
	out := make([]T, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := compare(a[0], b[0]); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			a, b = a[1:], b[1:]
		}
	}
	out = append(out, a...)
	return append(out, b...)
}
