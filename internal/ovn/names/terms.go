// SPDX-License-Identifier: Apache-2.0

package names

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
	"net/netip"
	"slices"
)

// kind is a question that an index answers. Each member that answers has a term of the kind; a member with
// the term need not answer.
type kind uint8

const (
	// kindExact is a name with readable records, and for a network also a name in a row that OVN owns.
	kindExact kind = iota
	kindOwned
	// kindBare is a hostname without a domain, kindAnyBare a network with such hostnames.
	kindBare
	kindAnyBare
	// kindNode exists without completed hostnames, kindBareNode in the tree of hostnames without a domain.
	kindNode
	kindBareNode
	// kindWildcard has a wildcard with data directly below, kindAnyWildcard also without data,
	// kindAboveWildcard anywhere below.
	kindWildcard
	kindAnyWildcard
	kindAboveWildcard
	// kindPointer is an address with a name, kindBarePointer with a hostname without a domain.
	kindPointer
	kindBarePointer
	kindMachine
	kindIdentity
	kindCount
)

// Most names are below no wildcard, so wildcards have a small index of their own.
func (k kind) isWild() bool {
	return k == kindWildcard || k == kindAnyWildcard || k == kindAboveWildcard
}

const kindBits = 4

// This constant overflows at compile time if there are too many kinds.
const _ = uint(1<<kindBits - kindCount)

// termSeed is random, so that tenants can't choose names with equal terms. Two of n terms collide with a
// probability of n² in 2⁶¹. Then a member may be queried without need, or a wildcard be taken for one that
// does not answer.
var termSeed = maphash.MakeSeed()

// The terms of one name are neighbours, so the first one loads the others into the cache.
func term(k kind, hash uint64) uint64 { return hash<<kindBits | uint64(k) }

func nameTerm(k kind, name string) uint64 { return term(k, maphash.String(termSeed, name)) }

// IPv4-mapped IPv6 addresses are not IPv4 addresses.
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
		return ok || d.rrs.has(kindExact, name) || d.isOwned(name)
	case kindBare:
		return d.hosts.bare.find(name) != nil
	case kindAnyBare:
		return len(d.hosts.bare.items) > 0
	case kindNode:
		return d.exists(name, "")
	case kindBareNode:
		return d.hosts.bare.exists(name)
	case kindWildcard, kindAnyWildcard, kindAboveWildcard:
		return d.tables.has(k, name) || d.rrs.has(k, name)
	}
	return false
}

func (d *Directory) hasAddress(k kind, a netip.Addr) bool {
	switch k {
	case kindPointer:
		for t := range d.tables.withAddress(a) {
			if len(d.confirm(t.records.namesOf(a), a, "")) > 0 {
				return true
			}
		}
		return len(d.confirm(d.hosts.names.namesOf(a), a, "")) > 0
	case kindBarePointer:
		return len(d.hosts.bare.namesOf(a)) > 0
	case kindMachine:
		return d.HasMachine(a)
	}
	return false
}

func (d *Directory) addressesOf(name string) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		yieldAll := func(e *entry) bool {
			return e == nil || !slices.ContainsFunc(e.addresses(), func(a netip.Addr) bool { return !yield(a) })
		}
		for t := range d.tables.allOf(name) {
			if !yieldAll(t.records.find(name)) {
				return
			}
		}
		_ = yieldAll(d.hosts.names.find(name)) && yieldAll(d.hosts.bare.find(name))
	}
}

// Prefixes find names above reverse names: an IPv4 /24 (RFC 1035, section 3.5) or an IPv6 /64 (RFC 4291,
// section 2.5.4).
func subnetBits(a netip.Addr) int {
	if a.Is4() {
		return 24
	}
	return 64
}

// The terms of subnets that overlap a prefix follow each other, in the order of the addresses.
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

// The hash of the subnet separates networks whose guests have the same interface identifiers.
func hostTerms(p netip.Prefix) (first, last uint64) {
	a := p.Addr().As16()
	first = binary.BigEndian.Uint64(a[8:]) ^ maphash.Bytes(termSeed, a[:8])
	mask := uint64(1)<<(p.Addr().BitLen()-p.Bits()) - 1
	return first &^ mask, first | mask
}

type version interface {
	hasName(k kind, name string) bool
	hasAddress(k kind, a netip.Addr) bool
	derivesWithin(p netip.Prefix) bool
	addressesOf(name string) iter.Seq[netip.Addr]
}

type nameOfKind struct {
	kind kind
	name string
}

type difference struct {
	member    uint32
	old, next version
	edits     *edits
	done      map[nameOfKind]struct{}
}

// If a port has changed, compare visits all ports.
func (d *Directory) compare(old *Directory, to *difference) {
	for was, is := range changedRows(old.tables.all, d.tables.all, noTable) {
		is.compare(was, to)
	}
	for was, is := range changedRows(old.rrs.all, d.rrs.all, noRRTable) {
		is.compare(was, to)
	}
	was, is := old.hosts, d.hosts
	if was == is {
		return
	}
	differentNames(&was.names.tree, &is.names.tree, (*entry).same, to.addName)
	differentNames(&was.bare.tree, &is.bare.tree, (*entry).same, to.addBare)
	differentAddresses(&was.names, &is.names, to.addAddress)
	differentAddresses(&was.bare, &is.bare, to.addAddress)
	differentMachines(was.machines, is.machines, func(a netip.Addr) { to.address(kindMachine, a) })
}

func (d *difference) addName(name string) {
	d.name(kindExact, name)
	d.name(kindOwned, name)
	d.ancestors(kindNode, name)
	for a := name; a != "."; a = parent(a) {
		if isWildcard(a) {
			encloser := parent(a)
			d.name(kindWildcard, encloser)
			d.name(kindAnyWildcard, encloser)
			d.ancestors(kindAboveWildcard, encloser)
		}
	}
	d.addAddresses(name)
}

func (d *difference) addBare(name string) {
	d.name(kindBare, name)
	d.name(kindAnyBare, "")
	d.ancestors(kindBareNode, name)
	d.addAddresses(name)
}

func (d *difference) ancestors(k kind, name string) {
	for a := name; a != "."; a = parent(a) {
		if _, ok := d.done[nameOfKind{k, a}]; ok {
			return
		}
		d.done[nameOfKind{k, a}] = struct{}{}
		d.name(k, a)
	}
}

// The answering row or port decides whether an address has the name.
func (d *difference) addAddresses(name string) {
	for _, v := range []version{d.old, d.next} {
		for a := range v.addressesOf(name) {
			d.addAddress(a)
		}
	}
}

func (d *difference) addAddress(a netip.Addr) {
	d.address(kindPointer, a)
	d.address(kindBarePointer, a)
	subnet := netip.PrefixFrom(a, subnetBits(a)).Masked()
	term, _ := subnetTerms(subnet)
	if a.Is4() {
		d.prefix(&d.edits.subnets4, term, subnet)
		return
	}
	d.prefix(&d.edits.subnets6, term, subnet)
	host := netip.PrefixFrom(a, a.BitLen())
	term, _ = hostTerms(host)
	d.prefix(&d.edits.hosts6, term, host)
}

func (d *difference) name(k kind, name string) {
	edits := &d.edits.terms
	if k.isWild() {
		edits = &d.edits.wild
	}
	if was, is := d.old.hasName(k, name), d.next.hasName(k, name); was != is {
		d.add(edits, nameTerm(k, name), is)
	}
}

func (d *difference) address(k kind, a netip.Addr) {
	if was, is := d.old.hasAddress(k, a), d.next.hasAddress(k, a); was != is {
		d.add(&d.edits.terms, addressTerm(k, a), is)
	}
}

func (d *difference) prefix(to *[]edit, term uint64, p netip.Prefix) {
	if was, is := d.old.derivesWithin(p), d.next.derivesWithin(p); was != is {
		d.add(to, term, is)
	}
}

func (d *difference) add(to *[]edit, term uint64, is bool) {
	*to = append(*to, edit{posting{term, d.member}, is})
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
		case old.items[i].name != next.items[k].name:
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
