// SPDX-License-Identifier: Apache-2.0

package names

import (
	"cmp"
	"hash/maphash"
	"iter"
	"maps"
	"slices"

	"github.com/miekg/dns"
)

// RRTable has the RRs of one DNS row, for all networks of the row. It is immutable; nil has no records.
type RRTable struct {
	row   [16]byte
	owned bool
	// sets has every key of the form dns-TYPE/NAME, readable or not.
	sets map[string]*rrSet
	// keys has the keys of each canonical name, in the order of compareKeys.
	keys  map[string][]string
	names tree[*RRs]
}

type rrSet struct {
	hash   uint64 // see entry
	name   string // canonical, "" if the key can't be read
	rrtype uint16
	rrs    []dns.RR // nil if the value is unreadable
}

func (t *RRTable) Len() int {
	if t == nil {
		return 0
	}
	return len(t.names.items)
}

// Has reports whether the table has exactly the RR keys of records, which must not be a difference.
func (t *RRTable) Has(records Records) bool {
	count := 0
	for k, v := range records.Pairs {
		if !isRRKey(k) {
			continue
		}
		if t == nil || t.sets[string(k)] == nil || t.sets[string(k)].hash != maphash.Bytes(valueSeed, v) {
			return false
		}
		count++
	}
	return t == nil && count == 0 || t != nil && count == len(t.sets)
}

// Aliases yields the canonical names with a CNAME record.
func (t *RRTable) Aliases() iter.Seq[string] {
	return func(yield func(string) bool) {
		if t == nil {
			return
		}
		for name, r := range t.names.all() {
			if (*r).alias != "" && !yield(name) {
				return
			}
		}
	}
}

// WithOwned returns the table with options:ovn-owned set to owned.
func (t *RRTable) WithOwned(owned bool) *RRTable {
	if t == nil || owned == t.owned {
		return t
	}
	next := *t
	next.owned = owned
	return &next
}

// WithRow returns the table with the UUID row.
func (t *RRTable) WithRow(row [16]byte) *RRTable {
	if t == nil || row == t.row {
		return t
	}
	next := *t
	next.row = row
	return &next
}

// Update returns the table after an update of a column with RR keys, nil if no RR keys are left. It ignores
// other keys. The time is proportional to the table, but only records in the update are parsed. An update that
// is no difference replaces all records and revokes all reports. Conflicts of the keys of a name are reported
// under "name/" and the name.
func (t *RRTable) Update(records Records, to Reports) *RRTable {
	var next *RRTable
	if records.Diff && t != nil {
		next = t.clone()
	} else {
		next = newRRTable()
		if t != nil {
			next.row, next.owned = t.row, t.owned
		}
	}
	touched := make(map[string]struct{})
	changed := false
	for k, v := range records.Pairs {
		if isRRKey(k) {
			changed = true
			if name := next.toggle(string(k), v, to); name != "" {
				touched[name] = struct{}{}
			}
		}
	}
	if records.Diff && !changed {
		return t
	}
	var changes []change[*RRs]
	for _, name := range slices.SortedFunc(maps.Keys(touched), compareNames) {
		r := next.compose(name, to)
		if r != nil || next.of(name) != nil {
			changes = append(changes, change[*RRs]{name, r, r == nil})
		}
	}
	next.names, _ = next.names.edit(changes)
	if len(next.sets) == 0 {
		return nil
	}
	return next
}

func newRRTable() *RRTable {
	return &RRTable{sets: make(map[string]*rrSet), keys: make(map[string][]string)}
}

func (t *RRTable) clone() *RRTable {
	return &RRTable{t.row, t.owned, maps.Clone(t.sets), maps.Clone(t.keys), t.names}
}

// toggle removes a key whose value is v, or sets it to v. It returns the canonical name, "" if the key is
// unreadable.
func (t *RRTable) toggle(key string, v []byte, to Reports) (name string) {
	to.Begin(key)
	hash := maphash.Bytes(valueSeed, v)
	if have := t.sets[key]; have != nil && have.hash == hash {
		delete(t.sets, key)
		t.removeKey(have.name, key)
		return have.name
	}
	set := &rrSet{hash: hash}
	rrtype, name, err := ParseRRKey(key)
	if err != nil {
		to.Bad(key, "", err)
	} else {
		set.rrtype, set.name = rrtype, name
		set.rrs = parseRRs(key, rrtype, string(v), to.Bad)
		t.addKey(name, key)
	}
	t.sets[key] = set
	return set.name
}

func (t *RRTable) addKey(name, key string) {
	keys := t.keys[name]
	if i, found := slices.BinarySearchFunc(keys, key, compareKeys); !found {
		t.keys[name] = slices.Insert(slices.Clone(keys), i, key) // the previous table shares the slice
	}
}

func (t *RRTable) removeKey(name, key string) {
	keys := t.keys[name]
	switch i, found := slices.BinarySearchFunc(keys, key, compareKeys); {
	case !found:
	case len(keys) == 1:
		delete(t.keys, name)
	default:
		t.keys[name] = slices.Delete(slices.Clone(keys), i, i+1)
	}
}

// compareKeys orders keys in lower case before others, then by bytes.
func compareKeys(a, b string) int {
	upper := func(key string) int {
		if isLower(key) {
			return 0
		}
		return 1
	}
	return cmp.Or(upper(a)-upper(b), cmp.Compare(a, b))
}

func isLower(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(c byte) bool { return 'A' <= c && c <= 'Z' })
}

// compose returns the RRs of a name, nil for none. The first readable key of each type counts.
func (t *RRTable) compose(name string, to Reports) *RRs {
	to.Begin("name/" + name)
	var sets []*rrSet
	alias := ""
	for _, key := range t.keys[name] {
		set := t.sets[key]
		if len(set.rrs) == 0 || slices.ContainsFunc(sets, func(s *rrSet) bool { return s.rrtype == set.rrtype }) {
			continue
		}
		sets = append(sets, set)
		if set.rrtype == dns.TypeCNAME {
			alias = key
		}
	}
	if alias != "" && len(sets) > 1 {
		to.Bad(alias, "", errAliasData)
		sets = slices.DeleteFunc(sets, func(s *rrSet) bool { return s.rrtype == dns.TypeCNAME })
	}
	slices.SortFunc(sets, func(a, b *rrSet) int { return cmp.Compare(a.rrtype, b.rrtype) })
	return newRRs(sets)
}

func newRRs(sets []*rrSet) *RRs {
	if len(sets) == 0 {
		return nil
	}
	r := &RRs{all: sets[0].rrs}
	for _, s := range sets[1:] {
		r.all = slices.Concat(r.all, s.rrs)
	}
	if c, ok := r.all[0].(*dns.CNAME); ok {
		r.alias = dns.CanonicalName(c.Target)
	}
	return r
}

func (t *RRTable) of(name string) *RRs {
	if r := t.names.find(name); r != nil {
		return *r
	}
	return nil
}

func (t *RRTable) provenance() Provenance { return Provenance{sourceDNS, t.owned} }
