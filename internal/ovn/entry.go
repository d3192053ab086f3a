// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"sort"
)

// entry is what one name has. It is immutable.
type entry struct {
	// hash is that of the record's value as it stands in the database: what an
	// update says of a record depends on whether its value is known (see
	// ovsdb.Row.Diff), and keeping all values would cost a third more memory.
	hash uint64
	// one is the address of a record that has just one, as nearly all have, and
	// more what any other has.
	one  [1]netip.Addr
	more *values
}

// values are those of a record.
type values struct {
	addresses []netip.Addr // the IPv4 ones first
	targets   []string
}

// newEntry makes an entry of addresses, of which the IPv4 ones come first, or of
// targets.
func newEntry(addresses []netip.Addr, targets []string) *entry {
	if len(addresses) == 1 && len(targets) == 0 {
		return &entry{one: [1]netip.Addr(addresses)}
	}
	return &entry{more: &values{addresses, targets}}
}

// addresses are the entry's: do not change them.
func (e *entry) addresses() []netip.Addr {
	switch {
	case e.more != nil:
		return e.more.addresses
	case e.one[0].IsValid():
		return e.one[:]
	}
	return nil
}

// usable tells whether there is anything to answer with.
func (e *entry) usable() bool {
	return e.one[0].IsValid() || e.more != nil && len(e.more.addresses)+len(e.more.targets) > 0
}

func (e *entry) answer(source string, owned bool) Answer {
	a := Answer{Source: source, OVNOwned: owned}
	all := e.addresses()
	v4 := sort.Search(len(all), func(i int) bool { return !all[i].Is4() })
	a.V4, a.V6 = all[:v4:v4], all[v4:]
	if e.more != nil {
		a.PTR = e.more.targets
	}
	return a
}
