// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"cmp"
	"slices"
)

// Row is a <row-update2> (ovsdb-server(7)). The Row and the bytes that its methods return are valid until
// Receiver.Row returns.
//
// Columns have their index in TableRequest: Columns first, then Optional. An absent column has its default in
// an Insert, and is unchanged in a Modify (see Has). Text is not checked to be UTF-8.
type Row struct {
	cells []cell
	atoms []atom
	text  []byte
}

// cell is a run of atoms, or of pairs in a map.
type cell struct {
	first, n      uint32
	width         uint32 // 1, in a map 2
	present, diff bool
}

// atom is text or a UUID's bytes in Row.text, or an integer or boolean in num.
type atom struct {
	off, n uint32
	num    int64
}

func (r *Row) reset(columns int) {
	// The memory of one huge row is not reused, but collected.
	const maxReused = 1 << 20
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

func (r *Row) Has(col int) bool { return r.cell(col).present }

// Diff reports whether the column has a difference to the last value: in a Modify, if the column may have
// several elements. In a set, the difference toggles its elements. In a map, a pair that exists is removed,
// and any other pair is set (ovsdb_datum_diff in lib/ovsdb-data.c of Open vSwitch).
func (r *Row) Diff(col int) bool { return r.cell(col).diff }

// Len returns the number of elements, or of pairs of a map.
func (r *Row) Len(col int) int { return int(r.cell(col).n) }

func (r *Row) Bytes(col int) []byte { return r.bytesAt(col, 0) }

func (r *Row) String(col int) string { return string(r.Bytes(col)) }

func (r *Row) Int(col int) int64 { return r.at(col, 0).num }

func (r *Row) Bool(col int) bool { return r.at(col, 0).num != 0 }

func (r *Row) UUID(col int) UUID { return r.uuidAt(col, 0) }

func (r *Row) bytesAt(col, i int) []byte { return r.bytes(r.at(col, i)) }

func (r *Row) uuidAt(col, i int) (id UUID) {
	copy(id[:], r.bytesAt(col, i))
	return id
}

func (r *Row) PairAt(col, i int) (key, value []byte) {
	return r.bytes(r.at(col, 2*i)), r.bytes(r.at(col, 2*i+1))
}

func (r *Row) Strings(col int) []string {
	all := make([]string, r.Len(col))
	for i := range all {
		all[i] = string(r.bytesAt(col, i))
	}
	slices.Sort(all)
	return all
}

func (r *Row) UUIDs(col int) []UUID {
	all := make([]UUID, r.Len(col))
	for i := range all {
		all[i] = r.uuidAt(col, i)
	}
	slices.SortFunc(all, UUID.Compare)
	return all
}

// PatchStrings returns the sorted set old after the update: old itself if the update lacks the column,
// otherwise a new slice.
func (r *Row) PatchStrings(col int, old []string) []string {
	return patchSet(r, col, old, (*Row).Strings, cmp.Compare[string])
}

func (r *Row) PatchUUIDs(col int, old []UUID) []UUID {
	return patchSet(r, col, old, (*Row).UUIDs, UUID.Compare)
}

func patchSet[T any](r *Row, col int, old []T, read func(*Row, int) []T, compare func(x, y T) int) []T {
	switch {
	case !r.Has(col):
		return old
	case !r.Diff(col):
		return read(r, col)
	}
	return symmetricDifference(old, read(r, col), compare)
}

func symmetricDifference[T any](a, b []T, compare func(x, y T) int) []T {
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
