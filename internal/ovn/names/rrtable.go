// SPDX-License-Identifier: Apache-2.0

package names

import (
	"cmp"
	"hash/maphash"
	"iter"
	"maps"
	"net/netip"
	"slices"

	"github.com/miekg/dns"
)

// RRTable has the RRs of one DNS row, for all its networks. It is immutable; nil is empty.
type RRTable struct {
	row   [16]byte
	owned bool
	// sets has every key of the form dns-TYPE/NAME, readable or not.
	sets  map[string]*rrSet
	keys  map[string][]string
	names tree[*RRs]
}

type rrSet struct {
	hash   uint64
	name   string
	rrtype uint16
	rrs    []dns.RR
}

func (t *RRTable) Len() int {
	if t == nil {
		return 0
	}
	return len(t.names.items)
}

// Has compares all RR keys of records, which must not be a difference.
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

func (t *RRTable) WithOwned(owned bool) *RRTable {
	if t == nil || owned == t.owned {
		return t
	}
	next := *t
	next.owned = owned
	return &next
}

func (t *RRTable) WithRow(row [16]byte) *RRTable {
	if t == nil || row == t.row {
		return t
	}
	next := *t
	next.row = row
	return &next
}

// Update is Table.Update for RR keys, nil if none are left. Conflicts of keys are reported under "name/" and
// the name.
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
			if name := next.patchValue(string(k), v, to); name != "" {
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

func (t *RRTable) patchValue(key string, v []byte, to Reports) (name string) {
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

// The first readable key of each type counts.
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

var noRRTable = newRRTable()

func (t *RRTable) id() [16]byte { return t.row }

func (t *RRTable) hasWildcards() bool { return len(t.names.wildcards) > 0 }

func (t *RRTable) hasName(k kind, name string) bool {
	switch k {
	case kindExact:
		return t.of(name) != nil
	case kindOwned:
		return t.owned && len(t.keys[name]) > 0
	}
	return t.names.hasNode(k, name)
}

func (t *RRTable) hasAddress(kind, netip.Addr) bool { return false }

func (t *RRTable) derivesWithin(netip.Prefix) bool { return false }

func (t *RRTable) addressesOf(string) iter.Seq[netip.Addr] { return slices.Values[[]netip.Addr](nil) }

func (t *RRTable) compare(old *RRTable, d *difference) {
	for name := range old.keys {
		if t.owned != old.owned || len(t.keys[name]) == 0 || old.of(name) != t.of(name) {
			d.addName(name)
		}
	}
	for name := range t.keys {
		if len(old.keys[name]) == 0 {
			d.addName(name)
		}
	}
}
