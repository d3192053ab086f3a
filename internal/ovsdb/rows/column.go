// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"slices"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Column is a column of a table and how it goes into a record. Several Columns may
// read one column of the table.
type Column[R any] struct {
	name     string
	optional bool
	set      func(id ovsdb.UUID, record *R, row *ovsdb.Row, col int) (changed bool)
	then     func(id ovsdb.UUID, record *R)
}

// Custom is a column with a setter of its own. That takes column col of the row into the
// record, which has the value known so far, and reports whether it has changed that. If
// the row lacks the column, the value is the column's default: nothing, 0 or "".
func Custom[R any](name string, set func(id ovsdb.UUID, record *R, row *ovsdb.Row, col int) (changed bool)) Column[R] {
	return Column[R]{name: name, set: set}
}

// Optional returns the column as one that the schema of the server may lack.
func (c Column[R]) Optional() Column[R] {
	c.optional = true
	return c
}

// Then returns the column with what is to be done when it has changed a record, such as
// to parse its text.
func (c Column[R]) Then(parse func(id ovsdb.UUID, record *R)) Column[R] {
	c.then = parse
	return c
}

// String is a column of text, or of optional text.
func String[R any](name string, field func(*R) *string) Column[R] {
	return Custom(name, func(_ ovsdb.UUID, r *R, row *ovsdb.Row, col int) bool {
		f := field(r)
		if *f == string(row.Bytes(col)) { // does not allocate
			return false
		}
		*f = row.String(col)
		return true
	})
}

// Integer is a column of an integer, or of an optional one. Of a value that the field
// has no room for the low bits are taken: the schemas have bounds.
func Integer[R any, T int | int64 | uint16 | uint32](name string, field func(*R) *T) Column[R] {
	return Custom(name, func(_ ovsdb.UUID, r *R, row *ovsdb.Row, col int) bool {
		return setField(field(r), T(row.Int(col)))
	})
}

// UUID is a column of a reference, or of an optional one.
func UUID[R any](name string, field func(*R) *ovsdb.UUID) Column[R] {
	return Custom(name, func(_ ovsdb.UUID, r *R, row *ovsdb.Row, col int) bool {
		return setField(field(r), row.UUID(col))
	})
}

func setField[T comparable](field *T, value T) (changed bool) {
	changed = *field != value
	*field = value
	return changed
}

// UUIDs is a column of a set of references. The field is sorted.
func UUIDs[R any](name string, field func(*R) *[]ovsdb.UUID) Column[R] {
	return set(name, field, (*ovsdb.Row).PatchUUIDs)
}

// Strings is a column of a set of texts. The field is sorted.
func Strings[R any](name string, field func(*R) *[]string) Column[R] {
	return set(name, field, (*ovsdb.Row).PatchStrings)
}

// set is a column of a set that patch brings up to date.
func set[R any, T comparable](name string, field func(*R) *[]T, patch func(*ovsdb.Row, int, []T) []T) Column[R] {
	return Custom(name, func(_ ovsdb.UUID, r *R, row *ovsdb.Row, col int) bool {
		f := field(r)
		if !row.Has(col) {
			return setSlice(f, nil)
		}
		return setSlice(f, patch(row, col, *f))
	})
}

func setSlice[T comparable](field *[]T, value []T) (changed bool) {
	if slices.Equal(*field, value) {
		return false // and the slice known so far stays
	}
	*field = value
	return true
}

// Key is the value of one key of a column that maps text to text. The field is "" if
// there is no such key: OVN makes no difference between the two for the keys that are
// read.
func Key[R any](name, key string, field func(*R) *string) Column[R] {
	return Custom(name, func(_ ovsdb.UUID, r *R, row *ovsdb.Row, col int) bool {
		f := field(r)
		return setField(f, patchKey(row, col, key, *f))
	})
}

// patchKey returns the value of a key after an update of its column.
func patchKey(row *ovsdb.Row, col int, key, known string) string {
	value := ""
	if row.Diff(col) {
		value = known
	}
	for i := range row.Len(col) {
		k, v := row.PairAt(col, i)
		if string(k) != key {
			continue
		}
		if row.Diff(col) && value == string(v) {
			return "" // a difference with the pair that is known removes it
		}
		return string(v)
	}
	return value
}

// Pair is a key of a column that maps text to text, with its value. It is an alias: other packages
// use its values without an import of this package.
type Pair = struct{ Key, Value string }

// ValueOf returns the value of a key, "" if there is none.
func ValueOf(pairs []Pair, key string) string {
	for i := range pairs {
		if pairs[i].Key == key {
			return pairs[i].Value
		}
	}
	return ""
}

// Keys is the values of some keys of a column that maps text to text; others are not stored.
// The field has those that are not empty, in the order of the keys. keys is called for each
// row with the column. If it returns other keys than before, rows have the values of the new
// keys once they have come again.
func Keys[R any](name string, keys func() []string, field func(*R) *[]Pair) Column[R] {
	return Custom(name, func(_ ovsdb.UUID, r *R, row *ovsdb.Row, col int) bool {
		f := field(r)
		var pairs []Pair
		for _, key := range keys() {
			if value := patchKey(row, col, key, ValueOf(*f, key)); value != "" {
				pairs = append(pairs, Pair{key, value})
			}
		}
		return setSlice(f, pairs)
	})
}

// Stored returns a column of a value that a record stores in another form, or in part. get returns the value
// as far as it is known, and put stores the next value and reports whether the record has changed. Only one
// Table may have the Column, because calls share memory.
func Stored[R, T any](c Column[T], get func(*R) T, put func(id ovsdb.UUID, record *R, value T) (changed bool)) Column[R] {
	value := new(T)
	return Column[R]{name: c.name, optional: c.optional, set: func(id ovsdb.UUID, r *R, row *ovsdb.Row, col int) bool {
		*value = get(r)
		return c.set(id, value, row, col) && put(id, r, *value)
	}}
}

// Shared returns a column of a part of a record that versions of the record share. The part is nil until a column
// has a value for it, and a change of the column makes another part. Only one Table may have the Column.
func Shared[R, T any](c Column[T], part func(*R) **T) Column[R] {
	none := new(T)
	return Column[R]{name: c.name, optional: c.optional, set: func(id ovsdb.UUID, r *R, row *ovsdb.Row, col int) bool {
		p, next := part(r), none
		if *p != nil {
			next = new(T)
			*next = **p
		}
		if !c.set(id, next, row, col) {
			return false
		}
		if next == none {
			none = new(T)
		}
		*p = next
		return true
	}}
}

// Within returns a column of a part of a record as one of the record.
func Within[R, T any](c Column[T], part func(*R) *T) Column[R] {
	within := Column[R]{name: c.name, optional: c.optional, set: func(id ovsdb.UUID, r *R, row *ovsdb.Row, col int) bool {
		return c.set(id, part(r), row, col)
	}}
	if c.then != nil {
		within.then = func(id ovsdb.UUID, r *R) { c.then(id, part(r)) }
	}
	return within
}
