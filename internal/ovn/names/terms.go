// SPDX-License-Identifier: Apache-2.0

package names

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"slices"
)

// kind is the kind of a term. Each network that answers a question has one of its terms. A network with such a
// term need not answer.
type kind uint8

const (
	// kindExact is a name with readable records, or in a row that OVN owns.
	kindExact kind = iota
	// kindBare is the hostname of a port without a domain. kindAnyBare marks a network with such ports.
	kindBare
	kindAnyBare
	// kindNode is a name that exists without the completion of hostnames. kindBareNode exists in the tree of
	// hostnames without a domain.
	kindNode
	kindBareNode
	// kindWildcard is a name with a wildcard directly below it that has data, kindNoData one whose wildcard has
	// no data. kindAboveWildcard is a name with a wildcard anywhere below it.
	kindWildcard
	kindNoData
	kindAboveWildcard
	// kindPointer is an address with a name, except hostnames without a domain, for which kindBarePointer is.
	kindPointer
	kindBarePointer
	kindMachine
	kindIdentity
	kindCount
)

// isWild reports whether the kind belongs to the separate, small set of wildcards. Most names are below no
// wildcard.
func (k kind) isWild() bool { return k == kindWildcard || k == kindNoData || k == kindAboveWildcard }

const kindBits = 4

// This constant overflows at compile time if there are too many kinds.
const _ = uint(1<<kindBits - kindCount)

// termSeed is random, so that tenants can't choose names with equal terms. Two of n names and addresses have
// equal terms by chance with a probability of n² in 2⁶¹. Then a network may be queried without need, or a
// wildcard be taken for one that does not answer.
var termSeed = maphash.MakeSeed()

// term returns the term of a kind for a hash. The terms of one name are neighbours in the index, so the first
// one loads the others into the cache.
func term(k kind, hash uint64) uint64 { return hash<<kindBits | uint64(k) }

func nameTerm(k kind, name string) uint64 { return term(k, maphash.String(termSeed, name)) }

// addressTerm distinguishes IPv4 addresses from IPv4-mapped IPv6 addresses.
func addressTerm(k kind, a netip.Addr) uint64 {
	if a.Is4() {
		b := a.As4()
		return term(k, maphash.Bytes(termSeed, b[:]))
	}
	b := a.As16()
	return term(k, maphash.Bytes(termSeed, b[:]))
}

func (d *Directory) hasName(k kind, name string) bool {
	switch k {
	case kindExact:
		_, ok := d.exact(name)
		return ok || d.hasRRs(name) || d.isOwned(name)
	case kindBare:
		return d.hosts.bare.find(name) != nil
	case kindAnyBare:
		return len(d.hosts.bare.items) > 0
	case kindNode:
		return d.exists(name, "")
	case kindBareNode:
		return d.hosts.bare.exists(name)
	case kindWildcard:
		return slices.ContainsFunc(d.tables, func(t *Table) bool { return t.records.find(t.records.wildcard(name)) != nil }) ||
			slices.ContainsFunc(d.rrs, func(t *RRTable) bool { return t.names.find(t.names.wildcard(name)) != nil })
	case kindNoData:
		return slices.ContainsFunc(d.tables, func(t *Table) bool { return t.records.hasEmptyWildcard(name) }) ||
			slices.ContainsFunc(d.rrs, func(t *RRTable) bool { return t.names.hasEmptyWildcard(name) })
	case kindAboveWildcard:
		return d.isAboveWildcard(name)
	}
	return false
}

func (d *Directory) hasAddress(k kind, a netip.Addr) bool {
	switch k {
	case kindPointer:
		return slices.ContainsFunc(d.tables, func(t *Table) bool { return len(d.confirm(t.records.namesOf(a), a, "")) > 0 }) ||
			len(d.confirm(d.hosts.names.namesOf(a), a, "")) > 0
	case kindBarePointer:
		return len(d.hosts.bare.namesOf(a)) > 0
	case kindMachine:
		return d.HasMachine(a)
	}
	return false
}

// subnetBits is the length of the indexed prefixes, which find names above reverse names. A name can stand for
// an IPv4 /24 (RFC 1035, section 3.5), and an IPv6 subnet is a /64 (RFC 4291, section 2.5.4).
func subnetBits(a netip.Addr) int {
	if a.Is4() {
		return 24
	}
	return 64
}

// subnetTerms returns the first and the last term of the subnets that overlap a prefix. Unlike hashes of names,
// these terms are in the order of the addresses.
func subnetTerms(p netip.Prefix) (first, last uint64) {
	bits := uint64(subnetBits(p.Addr()))
	if p.Addr().Is4() {
		a := p.Addr().As4()
		first = uint64(binary.BigEndian.Uint32(a[:]) >> 8)
	} else {
		a := p.Addr().As16()
		first = binary.BigEndian.Uint64(a[:8])
	}
	host := bits - min(bits, uint64(p.Bits()))
	mask := uint64(1)<<host - 1 // 1<<64 is 0, so all ones
	return first &^ mask, first | mask
}

type difference struct {
	network                         uint32
	old, next                       *Directory
	edits, wild, subnets4, subnets6 *[]edit
	// nodes, bareNodes and aboveWildcards are names whose ancestors are done.
	nodes, bareNodes, aboveWildcards map[string]struct{}
}

// add visits the names of changed rows and, if a port has changed, all ports of the network. It computes the
// terms of differences only.
func (d *difference) add() {
	gone, come := trimTables(d.old.tables, d.next.tables)
	if len(gone) == 1 && len(come) == 1 && gone[0].owned == come[0].owned {
		differentNames(&gone[0].records.tree, &come[0].records.tree, (*entry).same, d.addName)
		differentNames(&gone[0].unused, &come[0].unused, sameList, d.addName)
	} else {
		for _, t := range slices.Concat(without(gone, come), without(come, gone)) {
			for name := range t.records.all() {
				d.addName(name)
			}
			for name := range t.unused.all() {
				d.addName(name)
			}
		}
	}
	d.addRRTables()
	was, is := d.old.hosts, d.next.hosts
	if was == is {
		return
	}
	differentNames(&was.names.tree, &is.names.tree, (*entry).same, d.addName)
	differentNames(&was.bare.tree, &is.bare.tree, (*entry).same, d.addBare)
	differentAddresses(&was.names, &is.names, d.addAddress)
	differentAddresses(&was.bare, &is.bare, d.addAddress)
	differentMachines(was.machines, is.machines, func(a netip.Addr) { d.address(kindMachine, a) })
}

func (d *difference) addRRTables() {
	gone, come := trimTables(d.old.rrs, d.next.rrs)
	if len(gone) == 1 && len(come) == 1 && gone[0].owned == come[0].owned {
		differentRRs(gone[0], come[0], d.addName)
		return
	}
	for _, t := range slices.Concat(without(gone, come), without(come, gone)) {
		for name := range t.keys {
			d.addName(name)
		}
	}
}

func (d *difference) addName(name string) {
	d.name(kindExact, name)
	d.ancestors(kindNode, name, d.nodes)
	for a := name; a != "."; a = parent(a) {
		if isWildcard(a) {
			encloser := parent(a)
			d.name(kindWildcard, encloser)
			d.name(kindNoData, encloser)
			d.ancestors(kindAboveWildcard, encloser, d.aboveWildcards)
		}
	}
	d.addAddresses(name)
}

func (d *difference) addBare(name string) {
	d.name(kindBare, name)
	d.name(kindAnyBare, "")
	d.ancestors(kindBareNode, name, d.bareNodes)
	d.addAddresses(name)
}

// ancestors compares the terms of a name and its ancestors, up to the first one done.
func (d *difference) ancestors(k kind, name string, done map[string]struct{}) {
	for a := name; a != "."; a = parent(a) {
		if _, ok := done[a]; ok {
			return
		}
		done[a] = struct{}{}
		d.name(k, a)
	}
}

// addAddresses compares the terms of all addresses that a name has in any row or port: which of them answers
// decides whether an address has the name.
func (d *difference) addAddresses(name string) {
	for _, version := range []*Directory{d.old, d.next} {
		for _, t := range version.tables {
			if e := t.records.find(name); e != nil {
				d.addAll(e.addresses())
			}
		}
		for _, names := range []*addressTree{&version.hosts.names, &version.hosts.bare} {
			if e := names.find(name); e != nil {
				d.addAll(e.addresses())
			}
		}
	}
}

func (d *difference) addAll(addresses []netip.Addr) {
	for _, a := range addresses {
		d.addAddress(a)
	}
}

func (d *difference) addAddress(a netip.Addr) {
	d.address(kindPointer, a)
	d.address(kindBarePointer, a)
	p := netip.PrefixFrom(a, subnetBits(a)).Masked()
	term, _ := subnetTerms(p)
	subnets := d.subnets6
	if a.Is4() {
		subnets = d.subnets4
	}
	d.compare(subnets, term, d.old.derivesWithin(p), d.next.derivesWithin(p))
}

func (d *difference) name(k kind, name string) {
	edits := d.edits
	if k.isWild() {
		edits = d.wild
	}
	d.compare(edits, nameTerm(k, name), d.old.hasName(k, name), d.next.hasName(k, name))
}

func (d *difference) address(k kind, a netip.Addr) {
	d.compare(d.edits, addressTerm(k, a), d.old.hasAddress(k, a), d.next.hasAddress(k, a))
}

func (d *difference) compare(to *[]edit, term uint64, was, is bool) {
	if was != is {
		*to = append(*to, edit{posting{term, d.network}, is})
	}
}

// trimTables omits the common first and last tables. If one row has changed, one table of each is left.
func trimTables[T comparable](old, next []T) (gone, come []T) {
	for len(old) > 0 && len(next) > 0 && old[0] == next[0] {
		old, next = old[1:], next[1:]
	}
	for len(old) > 0 && len(next) > 0 && old[len(old)-1] == next[len(next)-1] {
		old, next = old[:len(old)-1], next[:len(next)-1]
	}
	return old, next
}

func without[T comparable](tables, others []T) (rest []T) {
	has := make(map[T]struct{}, len(others))
	for _, t := range others {
		has[t] = struct{}{}
	}
	for _, t := range tables {
		if _, ok := has[t]; !ok {
			rest = append(rest, t)
		}
	}
	return rest
}

func differentNames[V any](old, next *tree[V], same func(a, b *V) bool, yield func(name string)) {
	i, k := 0, 0
	for i < len(old.items) || k < len(next.items) {
		c := 0
		switch {
		case i == len(old.items):
			c = 1
		case k == len(next.items):
			c = -1
		case old.items[i].name != next.items[k].name: // most are equal
			c = compareNames(old.items[i].name[0], next.items[k].name[0])
		}
		switch {
		case c < 0:
			yield(old.items[i].name[0])
			i++
		case c > 0:
			yield(next.items[k].name[0])
			k++
		default:
			if !same(&old.items[i].has, &next.items[k].has) {
				yield(old.items[i].name[0])
			}
			i, k = i+1, k+1
		}
	}
}

func sameList(a, b *[]entry) bool { return len(*a) == len(*b) && &(*a)[0] == &(*b)[0] }

func differentRRs(old, next *RRTable, yield func(name string)) {
	for name := range old.keys {
		if len(next.keys[name]) == 0 || old.of(name) != next.of(name) {
			yield(name)
		}
	}
	for name := range next.keys {
		if len(old.keys[name]) == 0 {
			yield(name)
		}
	}
}

func differentAddresses(old, next *addressTree, yield func(netip.Addr)) {
	i, k := 0, 0
	for i < len(old.pointers) || k < len(next.pointers) {
		c := 0
		switch {
		case i == len(old.pointers):
			c = 1
		case k == len(next.pointers):
			c = -1
		default:
			c = compareAddressNames(old.pair(i), next.pair(k))
		}
		switch {
		case c < 0:
			yield(old.pair(i).address)
			i++
		case c > 0:
			yield(next.pair(k).address)
			k++
		default:
			i, k = i+1, k+1
		}
	}
}

func differentMachines(old, next map[netip.Addr]struct{}, yield func(netip.Addr)) {
	for _, sides := range [][2]map[netip.Addr]struct{}{{old, next}, {next, old}} {
		for a := range sides[0] {
			if _, ok := sides[1][a]; !ok {
				yield(a)
			}
		}
	}
}
