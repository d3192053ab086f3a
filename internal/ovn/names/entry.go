// SPDX-License-Identifier: Apache-2.0

package names

import (
	"net/netip"
	"sort"
)

// entry is what a record or a hostname has. It is immutable.
type entry struct {
	// hash is that of the record's value as it stands in the database. An update
	// means one thing if its value is the one known and another if it is not (see
	// ovsdb.Row.Diff). To keep the values themselves would cost a third more memory.
	// It is 0 for an entry that is not from a record.
	hash uint64
	// one is the address of an entry that has just one, as nearly all have.
	one [1]netip.Addr
	// more has what is rare, nil for nothing.
	more *rare
}

// rare is what few entries have.
type rare struct {
	addresses []netip.Addr // two or more, the IPv4 ones first
	targets   []string     // of a reverse name, fully qualified
	// alias is the key of the record, if it is another than the canonical name that it means: such
	// as "VM1" for "vm1.".
	alias string
}

// newEntry makes an entry of addresses, of which the IPv4 ones come first, or of
// targets.
func newEntry(addresses []netip.Addr, targets []string) entry {
	switch {
	case len(targets) > 0:
		return entry{more: &rare{targets: targets}}
	case len(addresses) > 1:
		return entry{more: &rare{addresses: addresses}}
	case len(addresses) == 1:
		return entry{one: [1]netip.Addr(addresses)}
	}
	return entry{}
}

// addresses returns the entry's own slice, IPv4 first. Callers must not change it.
func (e *entry) addresses() []netip.Addr {
	switch {
	case e.one[0].IsValid():
		return e.one[:]
	case e.more != nil:
		return e.more.addresses
	}
	return nil
}

// targets returns the entry's own slice. Callers must not change it.
func (e *entry) targets() []string {
	if e.more == nil {
		return nil
	}
	return e.more.targets
}

// usable reports whether there is anything to answer with.
func (e *entry) usable() bool { return len(e.addresses())+len(e.targets()) > 0 }

// alias returns the key of a record whose key is another than its name, else "".
func (e *entry) alias() string {
	if e.more == nil {
		return ""
	}
	return e.more.alias
}

// setAlias sets the alias of a record that is being made.
func (e *entry) setAlias(key string) {
	if e.more == nil {
		e.more = new(rare)
	}
	e.more.alias = key
}

// same reports whether two entries are known to have the same data.
func (e *entry) same(other *entry) bool { return e.one == other.one && e.more == other.more }

// answer returns what the entry has, as an answer from a source.
func (e *entry) answer(from Provenance) Answer {
	a := Answer{PTR: e.targets(), Provenance: from}
	all := e.addresses()
	v4 := sort.Search(len(all), func(i int) bool { return !all[i].Is4() })
	a.V4, a.V6 = all[:v4:v4], all[v4:]
	return a
}
