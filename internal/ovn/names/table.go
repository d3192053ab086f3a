// SPDX-License-Identifier: Apache-2.0

package names

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"
)

// Table is the compiled records of one DNS row. The networks that the row serves
// share it. It is immutable; the zero Table has no records.
type Table struct {
	// row is the UUID of the row.
	row [16]byte
	// owned is options:ovn-owned of the row.
	owned bool
	// names has every record under its key with a dot appended. That is its
	// canonical name, but for keys that are in aliases.
	names map[string]*entry
	// aliases has, by canonical name, the other keys of names that mean it, sorted:
	// such as "VM1." for "vm1.".
	aliases map[string][]string
	reverse reverseIndex
	below   descendants
	wild    wildcards[*entry]
}

// Records is the map of records of a DNS row, or a difference to it. The bytes need
// to be valid for the call only that they are passed to.
type Records struct {
	// Count is the number of pairs.
	Count int
	// Pairs has keys and values. Of a difference, a pair that is known is to be
	// removed, and any other is the key's new value.
	Pairs iter.Seq2[[]byte, []byte]
	// Diff is set for a difference.
	Diff bool
}

var valueSeed = maphash.MakeSeed()

// NewTable returns the table of a DNS row with that UUID, without records.
func NewTable(row [16]byte) *Table { return &Table{row: row} }

// Len is the number of records, readable or not.
func (t *Table) Len() int { return len(t.names) }

// Has reports whether the table has exactly these records, which are no difference.
func (t *Table) Has(records Records) bool {
	if records.Count != len(t.names) {
		return false
	}
	var key []byte
	for k, v := range records.Pairs {
		key = append(append(key[:0], k...), '.')
		if e := t.names[string(key)]; e == nil || e.hash != maphash.Bytes(valueSeed, v) {
			return false
		}
	}
	return true
}

// WithOwned returns the table of a row whose options:ovn-owned is that.
func (t *Table) WithOwned(owned bool) *Table {
	if owned == t.owned {
		return t
	}
	next := *t
	next.owned = owned
	return &next
}

// Update returns the table after an update of the records. It takes time in
// proportion to the table, but parses only the records that are passed. Records that are no
// difference take the place of all that were reported before.
func (t *Table) Update(records Records, to Reports) *Table {
	old, next := t, &Table{row: t.row, owned: t.owned}
	if records.Diff {
		next.names, next.aliases = maps.Clone(t.names), maps.Clone(t.aliases)
		next.below, next.wild = maps.Clone(t.below), t.wild.clone()
	} else {
		old = &Table{}
	}
	if next.names == nil {
		next.names = make(map[string]*entry, records.Count)
	}
	touched := make([]string, 0, records.Count)
	for k, v := range records.Pairs {
		if name := next.toggle(k, v, to); name != "" {
			touched = append(touched, name)
		}
	}
	next.reverse = next.index(old, touched)
	return next
}

// toggle removes a record that the table has with this value, and sets it
// otherwise. It returns the record's canonical name, "" if it has none.
func (t *Table) toggle(k, v []byte, to Reports) string {
	key := string(k) + "."
	to.Begin(key[:len(k)])
	name, err := Canonical(key[:len(k)])
	switch {
	case err != nil:
		name = ""
	case name == key:
		name = key // one string for both
	}
	hash := maphash.Bytes(valueSeed, v)
	if have := t.names[key]; have != nil && have.hash == hash {
		delete(t.names, key)
		if name != key {
			t.removeAlias(name, key)
		}
		return name
	}
	e := &entry{}
	if err != nil {
		to.Bad(string(k), "", err)
	} else {
		e = parseRecord(name, string(v), to.Bad)
	}
	e.hash = hash
	t.names[key] = e
	if name != key && name != "" {
		t.addAlias(name, key)
	}
	return name
}

// index updates the descendants and the wildcards for the names touched, which are
// those of old so far, and returns the new reverse index. An address gets no reverse
// name from a wildcard.
func (t *Table) index(old *Table, touched []string) reverseIndex {
	slices.Sort(touched)
	var more []addressName
	gone := make(map[addressName]struct{})
	for _, name := range slices.Compact(touched) {
		had, has := old.find(name), t.find(name)
		t.updateBelow(name, had != nil, has != nil)
		t.updateWildcards(name)
		if isWildcard(name) {
			continue
		}
		if had != nil {
			for _, a := range had.addresses() {
				gone[addressName{a, name}] = struct{}{}
			}
		}
		if has != nil {
			more = appendPairs(more, name, has.addresses())
		}
	}
	return old.reverse.edit(gone, more)
}

// find returns the record of a canonical name, nil if no value of it can be read. A
// key that is canonical itself goes before others that mean the same, and those go
// by their bytes.
func (t *Table) find(name string) *entry {
	if e := t.names[name]; e != nil && e.usable() {
		return e
	}
	for _, key := range t.aliases[name] {
		if e := t.names[key]; e.usable() {
			return e
		}
	}
	return nil
}

// hasKey reports whether there is a record of a canonical name, readable or not.
func (t *Table) hasKey(name string) bool { return t.names[name] != nil || len(t.aliases[name]) > 0 }

// exists reports whether a canonical name has a record or names below it.
func (t *Table) exists(name string) bool { return t.below[name] > 0 || t.find(name) != nil }

func (t *Table) addAlias(name, key string) {
	keys := t.aliases[name]
	i, found := slices.BinarySearch(keys, key)
	if found {
		return
	}
	if t.aliases == nil {
		t.aliases = make(map[string][]string)
	}
	// The old table has the slice too.
	t.aliases[name] = slices.Insert(slices.Clone(keys), i, key)
}

func (t *Table) removeAlias(name, key string) {
	keys := t.aliases[name]
	i, found := slices.BinarySearch(keys, key)
	switch {
	case !found:
	case len(keys) == 1:
		delete(t.aliases, name)
	default:
		t.aliases[name] = slices.Delete(slices.Clone(keys), i, i+1)
	}
}
