// SPDX-License-Identifier: Apache-2.0

package ovn

import "net/netip"

// entry is what one name has. It is immutable.
type entry struct {
	// hash is that of the record's value as it stands in the database: what an
	// update says of a record depends on whether its value is known (see
	// ovsdb.Row.Diff), and keeping all values would cost a third more memory.
	hash uint64
	// addresses has the IPv4 ones first, v4 of them.
	addresses []netip.Addr
	v4        int
	targets   []string
}

// newEntry makes an entry of addresses, of which the IPv4 ones come first.
func newEntry(addresses []netip.Addr) *entry {
	e := &entry{addresses: addresses}
	for e.v4 < len(addresses) && addresses[e.v4].Is4() {
		e.v4++
	}
	return e
}

// usable tells whether there is anything to answer with.
func (e *entry) usable() bool { return len(e.addresses)+len(e.targets) > 0 }

func (e *entry) answer(source string, owned bool) Answer {
	return Answer{
		V4:       e.addresses[:e.v4:e.v4],
		V6:       e.addresses[e.v4:],
		PTR:      e.targets,
		Source:   source,
		OVNOwned: owned,
	}
}
