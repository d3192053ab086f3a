// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"slices"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Column reads a column of a table into a record. Several Columns may read one column of the table.
type Column[R any] struct {
	name     string
	optional bool
	set      func(id ovsdb.UUID, record *R, row *ovsdb.Row, col int) (changed bool)
	then     func(id ovsdb.UUID, record *R)
}

// Custom has a setter, which reads column col of the row into the record with the previous value.
func Custom[R any](name string, set func(id ovsdb.UUID, record *R, row *ovsdb.Row, col int) (changed bool)) Column[R] {
	return Column[R]{name: name, set: set}
}

// Optional returns the column for servers whose schema may lack it.
func (c Column[R]) Optional() Column[R] {
	c.optional = true
	return c
}

// Then adds a function that is called after a change of the column, such as to parse text.
func (c Column[R]) Then(parse func(id ovsdb.UUID, record *R)) Column[R] {
	c.then = parse
	return c
}

func String[R any](name string, field func(*R) *string) Column[R] {
	return Custom(name, func(_ ovsdb.UUID, r *R, row *ovsdb.Row, col int) bool {
		f := field(r)
		if *f == string(row.Bytes(col)) {
			return false
		}
		*f = row.String(col)
		return true
	})
}

// Integer is a column of an optional integer. The bounds of the schemas fit into the field.
func Integer[R any, T int | int64 | uint16 | uint32](name string, field func(*R) *T) Column[R] {
	return Custom(name, func(_ ovsdb.UUID, r *R, row *ovsdb.Row, col int) bool {
		return setField(field(r), T(row.Int(col)))
	})
}

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

func UUIDs[R any](name string, field func(*R) *[]ovsdb.UUID) Column[R] {
	return set(name, field, (*ovsdb.Row).PatchUUIDs)
}

func Strings[R any](name string, field func(*R) *[]string) Column[R] {
	return set(name, field, (*ovsdb.Row).PatchStrings)
}

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
		return false // records share the memory
	}
	*field = value
	return true
}

// Key is the value of one key of a map column, "" if missing: OVN does not distinguish the two.
func Key[R any](name, key string, field func(*R) *string) Column[R] {
	return Custom(name, func(_ ovsdb.UUID, r *R, row *ovsdb.Row, col int) bool {
		f := field(r)
		return setField(f, patchKey(row, col, key, *f))
	})
}

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
			return "" // a difference with a known pair removes the pair
		}
		return string(v)
	}
	return value
}

// Pair is an alias, so that other packages need not import this one.
type Pair = struct{ Key, Value string }

func ValueOf(pairs []Pair, key string) string {
	for i := range pairs {
		if pairs[i].Key == key {
			return pairs[i].Value
		}
	}
	return ""
}

// Keys is the non-empty values of some keys of a map column. After a change of keys, a row has the new values
// when the database sends it again.
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

// Stored returns a column of a value that a record stores in another form. put reports whether the record has
// changed. Only one Table may have the Column: calls share memory.
func Stored[R, T any](c Column[T], get func(*R) T, put func(id ovsdb.UUID, record *R, value T) (changed bool)) Column[R] {
	value := new(T)
	return Column[R]{name: c.name, optional: c.optional, set: func(id ovsdb.UUID, r *R, row *ovsdb.Row, col int) bool {
		*value = get(r)
		return c.set(id, value, row, col) && put(id, r, *value)
	}}
}

// Shared returns a column of a part that versions of a record share, nil until a column has a value. Only one
// Table may have the Column.
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

func Within[R, T any](c Column[T], part func(*R) *T) Column[R] {
	within := Column[R]{name: c.name, optional: c.optional, set: func(id ovsdb.UUID, r *R, row *ovsdb.Row, col int) bool {
		return c.set(id, part(r), row, col)
	}}
	if c.then != nil {
		within.then = func(id ovsdb.UUID, r *R) { c.then(id, part(r)) }
	}
	return within
}
