// SPDX-License-Identifier: Apache-2.0

package names

import (
	"cmp"
	"hash/maphash"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Table has the address and PTR records of one DNS row, for all its networks. It is immutable; the zero Table
// is empty.
type Table struct {
	row   [16]byte
	owned bool
	// records has the record that answers each name. Wildcards have no reverse names.
	records addressTree
	// unused has the other records of each name, in the order of findAlias: unreadable, or after a readable
	// one.
	unused tree[[]entry]
	// invalid has the keys that are no domain names, with the hashes of their values.
	invalid map[string]uint64
}

// Records is a records column, or a difference to it. Its bytes are valid only during the call.
type Records struct {
	Count int
	// A difference removes a stored pair, and sets any other.
	Pairs iter.Seq2[[]byte, []byte]
	Diff  bool
}

var valueSeed = maphash.MakeSeed()

func NewTable(row [16]byte) *Table { return &Table{row: row} }

func (t *Table) Len() int {
	n := len(t.records.items) + len(t.invalid)
	for i := range t.unused.items {
		n += len(t.unused.items[i].has)
	}
	return n
}

// Has reports whether the table has exactly these records, which must not be a difference.
func (t *Table) Has(records Records) bool {
	if records.Count != t.Len() {
		return false
	}
	for k, v := range records.Pairs {
		key, _ := readKey(k)
		if hash, ok := t.hashOf(key); !ok || hash != maphash.Bytes(valueSeed, v) {
			return false
		}
	}
	return true
}

func (t *Table) WithOwned(owned bool) *Table {
	if owned == t.owned {
		return t
	}
	next := *t
	next.owned = owned
	return &next
}

func (t *Table) WithRow(row [16]byte) *Table {
	if row == t.row {
		return t
	}
	next := *t
	next.row = row
	return &next
}

type recordKey struct {
	name  string
	alias string // the key, if it is not name without the last dot
}

func readKey(key []byte) (k recordKey, err error) {
	full := string(key) + "."
	if isCanonical(full) {
		return recordKey{name: full}, nil
	}
	name, err := Canonical(full[:len(key)])
	if name == full {
		return recordKey{name: full}, nil
	}
	return recordKey{name, full[:len(key)]}, err
}

func compareRecordKeys(a, b recordKey) int {
	return cmp.Or(compareNames(a.name, b.name), strings.Compare(a.alias, b.alias))
}

func (t *Table) hashOf(k recordKey) (hash uint64, ok bool) {
	if k.name == "" {
		hash, ok = t.invalid[k.alias]
		return hash, ok
	}
	if e := t.records.find(k.name); e != nil && e.alias() == k.alias {
		return e.hash, true
	}
	if all := t.unused.find(k.name); all != nil {
		if i, ok := findAlias(*all, k.alias); ok {
			return (*all)[i].hash, true
		}
	}
	return 0, false
}

// The canonical key comes first, then others by bytes.
func findAlias(all []entry, alias string) (int, bool) {
	return slices.BinarySearchFunc(all, alias, func(e entry, alias string) int { return strings.Compare(e.alias(), alias) })
}

type recordChange struct {
	recordKey
	has  entry
	gone bool
}

// Update parses only records in the update, and copies the table. A full update replaces all records and
// revokes all reports.
func (t *Table) Update(records Records, to Reports) *Table {
	next := &Table{row: t.row, owned: t.owned}
	if !records.Diff {
		t = new(Table)
	}
	changes := make([]recordChange, 0, records.Count)
	for k, v := range records.Pairs {
		changes = append(changes, t.read(k, v, to))
	}
	slices.SortStableFunc(changes, func(a, b recordChange) int { return compareRecordKeys(a.recordKey, b.recordKey) })
	valid := slices.IndexFunc(changes, func(c recordChange) bool { return c.name != "" })
	if valid < 0 {
		valid = len(changes)
	}
	next.invalid = withInvalid(t.invalid, changes[:valid])
	e := tableEdit{table: t, records: make([]change[entry], 0, len(changes))}
	for changes = changes[valid:]; len(changes) > 0; {
		end := 1
		for end < len(changes) && changes[end].name == changes[0].name {
			end++
		}
		e.add(changes[:end])
		changes = changes[end:]
	}
	next.records = t.records.edit(e.records, e.addresses)
	next.unused, _ = t.unused.edit(e.unused)
	return next
}

func (t *Table) read(k, v []byte, to Reports) recordChange {
	key, err := readKey(k)
	c := recordChange{recordKey: key}
	to.Begin(string(k))
	hash := maphash.Bytes(valueSeed, v)
	have, known := t.hashOf(key)
	switch {
	case known && have == hash:
		c.gone = true
		return c
	case err != nil:
		to.Bad(string(k), "", err)
	default:
		c.has = parseRecord(key.name, string(v), to.Bad)
		if key.alias != "" {
			c.has.setAlias(key.alias)
		}
	}
	c.has.hash = hash
	return c
}

func withInvalid(invalid map[string]uint64, changes []recordChange) map[string]uint64 {
	if len(changes) == 0 {
		return invalid
	}
	next := maps.Clone(invalid)
	if next == nil {
		next = make(map[string]uint64)
	}
	for _, c := range changes {
		if c.gone {
			delete(next, c.alias)
		} else {
			next[c.alias] = c.has.hash
		}
	}
	return next
}

type tableEdit struct {
	table     *Table
	records   []change[entry]
	unused    []change[[]entry]
	addresses []addressName
	all       []entry
}

func (e *tableEdit) add(changes []recordChange) {
	name := changes[0].name
	e.all = e.table.appendRecords(e.all[:0], name)
	for _, c := range changes {
		switch i, found := findAlias(e.all, c.alias); {
		case c.gone && found:
			e.all = slices.Delete(e.all, i, i+1)
		case found:
			e.all[i] = c.has
		case !c.gone:
			e.all = slices.Insert(e.all, i, c.has)
		}
	}
	if i := slices.IndexFunc(e.all, func(r entry) bool { return r.usable() }); i >= 0 {
		r := e.all[i]
		e.records = append(e.records, change[entry]{name: name, has: r})
		if !isWildcard(name) {
			e.addresses = appendPairs(e.addresses, name, r.addresses())
		}
		e.all = slices.Delete(e.all, i, i+1)
	} else if e.table.records.find(name) != nil {
		e.records = append(e.records, change[entry]{name: name, gone: true})
	}
	if len(e.all) > 0 {
		e.unused = append(e.unused, change[[]entry]{name: name, has: slices.Clone(e.all)})
	} else if e.table.unused.find(name) != nil {
		e.unused = append(e.unused, change[[]entry]{name: name, gone: true})
	}
}

func (t *Table) appendRecords(all []entry, name string) []entry {
	first := len(all)
	if unused := t.unused.find(name); unused != nil {
		all = append(all, *unused...)
	}
	if e := t.records.find(name); e != nil {
		i, _ := findAlias(all[first:], e.alias())
		all = slices.Insert(all, first+i, *e)
	}
	return all
}

func (t *Table) hasKey(name string) bool {
	return t.records.find(name) != nil || t.unused.find(name) != nil
}

func (t *Table) provenance() Provenance { return Provenance{sourceDNS, t.owned} }

// noTable stands for the missing version of a new or removed row.
var noTable = new(Table)

func (t *Table) id() [16]byte { return t.row }

func (t *Table) hasWildcards() bool { return len(t.records.wildcards) > 0 }

func (t *Table) hasName(k kind, name string) bool {
	switch k {
	case kindExact:
		return t.records.find(name) != nil
	case kindOwned:
		return t.owned && t.hasKey(name)
	}
	return t.records.hasNode(k, name)
}

func (t *Table) hasAddress(k kind, a netip.Addr) bool {
	return k == kindPointer && t.derivesWithin(netip.PrefixFrom(a, a.BitLen()))
}

func (t *Table) derivesWithin(p netip.Prefix) bool { return t.records.hasWithin(p) }

func (t *Table) addressesOf(name string) iter.Seq[netip.Addr] {
	if e := t.records.find(name); e != nil {
		return slices.Values(e.addresses())
	}
	return slices.Values[[]netip.Addr](nil)
}

func (t *Table) compare(old *Table, d *difference) {
	if t.owned != old.owned {
		old.compare(&Table{owned: old.owned}, d)
		old = &Table{owned: t.owned}
	}
	differentNames(&old.records.tree, &t.records.tree, (*entry).same, d.addName)
	differentNames(&old.unused, &t.unused, sameList, d.addName)
}
