// SPDX-License-Identifier: Apache-2.0

package names

import (
	"net/netip"
	"sort"
)

type entry struct {
	// hash is of the record's value. It decides whether a pair of an update removes or sets a value (see
	// ovsdb.Row.Diff). Stored values would take a third more memory.
	hash uint64
	one  [1]netip.Addr
	more *rare
}

type rare struct {
	addresses []netip.Addr // two or more, IPv4 first
	targets   []string
	// alias is the key if it is not canonical, such as "VM1" for "vm1.".
	alias string
}

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

// addresses returns a shared slice, IPv4 first.
func (e *entry) addresses() []netip.Addr {
	switch {
	case e.one[0].IsValid():
		return e.one[:]
	case e.more != nil:
		return e.more.addresses
	}
	return nil
}

func (e *entry) targets() []string {
	if e.more == nil {
		return nil
	}
	return e.more.targets
}

func (e *entry) usable() bool { return len(e.addresses())+len(e.targets()) > 0 }

func (e *entry) alias() string {
	if e.more == nil {
		return ""
	}
	return e.more.alias
}

func (e *entry) setAlias(key string) {
	if e.more == nil {
		e.more = new(rare)
	}
	e.more.alias = key
}

// same may return false for equal data.
func (e *entry) same(other *entry) bool { return e.one == other.one && e.more == other.more }

func (e *entry) answer(from Provenance) Answer {
	a := Answer{PTR: e.targets(), Provenance: from}
	all := e.addresses()
	v4 := sort.Search(len(all), func(i int) bool { return !all[i].Is4() })
	a.V4, a.V6 = all[:v4:v4], all[v4:]
	return a
}
