// SPDX-License-Identifier: Apache-2.0

package names

import (
	"net/netip"
	"sort"
)

// entry is what one name has. It is immutable.
type entry struct {
	// hash is that of the record's value as it stands in the database. An update
	// means one thing if its value is the one known and another if it is not (see
	// ovsdb.Row.Diff). To keep the values themselves would cost a third more memory.
	// It is 0 for an entry that is not from a record.
	hash uint64
	// one is the address of an entry that has just one, as nearly all have. more is
	// what any other entry has; then one is invalid.
	one  [1]netip.Addr
	more *values
}

// values are those of an entry.
type values struct {
	addresses []netip.Addr // the IPv4 ones first
	targets   []string     // of a reverse name, fully qualified
}

// newEntry makes an entry of addresses, of which the IPv4 ones come first, or of
// targets.
func newEntry(addresses []netip.Addr, targets []string) *entry {
	if len(addresses) == 1 && len(targets) == 0 {
		return &entry{one: [1]netip.Addr(addresses)}
	}
	return &entry{more: &values{addresses, targets}}
}

// addresses returns the entry's own slice, IPv4 first. Callers must not change it.
func (e *entry) addresses() []netip.Addr {
	switch {
	case e.more != nil:
		return e.more.addresses
	case e.one[0].IsValid():
		return e.one[:]
	}
	return nil
}

// usable reports whether there is anything to answer with.
func (e *entry) usable() bool {
	return e.one[0].IsValid() || e.more != nil && len(e.more.addresses)+len(e.more.targets) > 0
}

func (e *entry) answer(source Source, owned bool) Answer {
	a := Answer{Source: source, OVNOwned: owned}
	all := e.addresses()
	v4 := sort.Search(len(all), func(i int) bool { return !all[i].Is4() })
	a.V4, a.V6 = all[:v4:v4], all[v4:]
	if e.more != nil {
		a.PTR = e.more.targets
	}
	return a
}
