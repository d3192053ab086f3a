// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"hash/maphash"
	"maps"
	"slices"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// table is the compiled records of one DNS row, shared by the networks that the
// row serves. It is immutable.
type table struct {
	owned bool
	// names holds every record under its key with a dot behind. That is its
	// canonical name, but for keys that aliases leads to.
	names map[string]*entry
	// aliases gives, for a canonical name, the other keys of names that mean
	// it, sorted: such as "VM1." for "vm1.".
	aliases map[string][]string
	reverse reverse
	below   tree
	// wild has the wildcard records by the name that they stand right below.
	wild map[string]*entry
}

var valueSeed = maphash.MakeSeed()

// find returns the record of a canonical name. A key that is canonical itself
// goes before others that mean the same, and those go by their bytes.
func (t *table) find(name string) *entry {
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

// has tells whether there is a record of a canonical name, readable or not.
func (t *table) has(name string) bool { return t.names[name] != nil || len(t.aliases[name]) > 0 }

// same tells whether the row has just the records of t.
func (t *table) same(row *ovsdb.Row, col int) bool {
	if row.Len(col) != len(t.names) {
		return false
	}
	var key []byte
	for i := range row.Len(col) {
		k, v := row.PairAt(col, i)
		key = append(append(key[:0], k...), '.')
		if e := t.names[string(key)]; e == nil || e.hash != maphash.Bytes(valueSeed, v) {
			return false
		}
	}
	return true
}

// patch returns the table after an update of the column of records.
func (t *table) patch(row *ovsdb.Row, col int, bad report) *table {
	old, next := t, &table{owned: t.owned}
	if row.Diff(col) {
		next.names, next.aliases = maps.Clone(t.names), maps.Clone(t.aliases)
		next.below, next.wild = maps.Clone(t.below), maps.Clone(t.wild)
	} else {
		old = &table{}
	}
	if next.names == nil {
		next.names = make(map[string]*entry, row.Len(col))
	}
	touched := make([]string, 0, row.Len(col))
	for i := range row.Len(col) {
		k, v := row.PairAt(col, i)
		key := string(k) + "."
		name, err := canonical(key[:len(k)])
		switch {
		case err != nil:
			name = ""
		case name == key:
			name = key // one string for both
		}
		hash := maphash.Bytes(valueSeed, v)
		if have := next.names[key]; have != nil && have.hash == hash {
			delete(next.names, key)
			if name != key {
				next.unalias(name, key)
			}
		} else {
			e := &entry{}
			if err != nil {
				bad(string(k), "", err)
			} else {
				e = parseRecord(name, string(v), bad)
			}
			e.hash = hash
			next.names[key] = e
			if name != key && name != "" {
				next.alias(name, key)
			}
		}
		if name != "" {
			touched = append(touched, name)
		}
	}
	next.reverse = next.index(old, touched)
	return next
}

// index brings the tree, the wildcards and the reverse names of old up to date
// for the names touched. A wildcard is no name of an address.
func (t *table) index(old *table, touched []string) reverse {
	slices.Sort(touched)
	var more []pair
	gone := make(map[pair]struct{})
	for _, name := range slices.Compact(touched) {
		had, has := old.find(name), t.find(name)
		t.grow(name, had != nil, has != nil)
		if isWildcard(name) {
			continue
		}
		if had != nil {
			for _, a := range had.addresses() {
				gone[pair{a, name}] = struct{}{}
			}
		}
		if has != nil {
			more = appendPairs(more, name, has.addresses())
		}
	}
	return old.reverse.edit(gone, more)
}

func (t *table) alias(name, key string) {
	keys := t.aliases[name]
	i, found := slices.BinarySearch(keys, key)
	if found {
		return
	}
	if t.aliases == nil {
		t.aliases = make(map[string][]string)
	}
	t.aliases[name] = slices.Insert(slices.Clone(keys), i, key)
}

func (t *table) unalias(name, key string) {
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
