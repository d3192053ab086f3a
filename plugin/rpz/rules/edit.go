// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"maps"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"
	"github.com/miekg/dns"
)

var (
	errThere    = errors.New("the record to add is there, expected it not to be")
	errNotThere = errors.New("the record to delete is not there, expected it to be")
	errFewer    = errors.New("more records to delete than there are, of those that are no rules")
	errForm     = errors.New("the zone has an IPv6 prefix in another form than the shortest, expected none in a zone that is edited")
)

// CanEdit reports whether Edit succeeds.
func (r *Rules) CanEdit() bool { return !r.ambiguous }

// Edit returns a Builder with a copy of r, at a cost for each rule. Adding a present record or deleting a
// missing one is an error.
func (r *Rules) Edit(origin string, limits Limits) (*Builder, error) {
	if r.ambiguous {
		return nil, errForm
	}
	b, err := NewBuilder(origin, limits)
	if err != nil {
		return nil, err
	}
	b.edits, b.rules = true, *r
	b.rules.names = r.names.clone()
	b.rules.data = r.data[:len(r.data):len(r.data)] // append copies it
	b.rules.Stats.Skipped = maps.Clone(r.Stats.Skipped)
	return b, nil
}

// Delete deletes a record. Only for a Builder of Edit.
func (b *Builder) Delete(rr dns.RR) error {
	b.rules.records--
	return b.take(rr, true)
}

// SetSOA replaces the SOA record. Only for a Builder of Edit.
func (b *Builder) SetSOA(soa *dns.SOA) { b.rules.SOA = soa }

func (b *Builder) deleteName(n *Name, group []dns.RR) error {
	place, without := &b.rules.top, n.withoutAsterisk()
	if without < n.labels {
		at, found := b.rules.names.find(n.suffix(without))
		if !found {
			return errNotThere
		}
		place = b.rules.names.slots[at].policy(without)
	}
	p, err := b.without(*place, group, "")
	if err != nil {
		return err
	}
	*place = p
	if p == 0 {
		b.rules.Stats.Names--
		b.rules.names.prune(n, without)
	}
	return nil
}

func (b *Builder) deleteAddress(prefix netip.Prefix, self string, group []dns.RR) error {
	r := &b.rules
	if r.addresses == nil {
		return errNotThere
	}
	old, _ := r.addresses.Get(prefix)
	p, err := b.without(old, group, self)
	if err != nil {
		return err
	}
	if p == 0 {
		r.Stats.Addresses--
	}
	b.setAddress(prefix, p)
	return nil
}

// without deletes records from old, 0 for none.
func (b *Builder) without(old Policy, group []dns.RR, self string) (Policy, error) {
	p := old
	var set []byte
	if old >= firstLocal {
		set = append(set, b.rules.set(old)...)
	}
	for _, rr := range group {
		if action := actionOf(rr, self); action != NoAction {
			if p != Policy(action) {
				return 0, errNotThere
			}
			p = 0
			continue
		}
		record, err := packed(rr)
		if err != nil {
			return 0, err
		}
		from, to := find(set, record, sameRecord)
		if from < 0 {
			return 0, errNotThere
		}
		set = slices.Delete(set, from, to)
	}
	if old < firstLocal {
		return p, nil
	}
	b.forget(old)
	if len(set) == 0 {
		return 0, nil
	}
	return b.intern(set)
}

// forget counts the data of a policy as dead.
func (b *Builder) forget(p Policy) {
	if p >= firstLocal {
		b.rules.dead += 4 + len(b.rules.set(p))
	}
}

// minDead bytes are not worth a copy.
const minDead = 64 << 10

// checkCounts fails if more records were deleted than exist. Records that are no rules are only counted.
func (b *Builder) checkCounts() error {
	r := &b.rules
	if r.Stats.Bad < 0 || r.records < 0 {
		return errFewer
	}
	for _, n := range r.Stats.Skipped {
		if n < 0 {
			return errFewer
		}
	}
	return nil
}

func (b *Builder) edited() (*Rules, error) {
	r := &b.rules
	if r.ambiguous {
		return nil, errForm
	}
	if r.Stats.Bad == 0 {
		r.Stats.FirstBad = ""
	}
	if dead := r.names.dead + r.dead; dead > minDead && dead > r.Size()/2 {
		return r.compact()
	}
	final := *r
	return &final, nil
}

// compact removes dead bytes.
func (r *Rules) compact() (*Rules, error) {
	b := Builder{rules: *r, interned: map[string]Policy{}}
	b.rules.names, b.rules.data, b.rules.dead = table{}, nil, 0
	// A name above another is a suffix of its bytes, so leaves come first.
	for i := range r.names.slots {
		if s := &r.names.slots[i]; r.names.tags[i] != 0 && s.children == 0 {
			if err := b.copyName(r, s); err != nil {
				return nil, err
			}
		}
	}
	for i := range r.names.slots {
		if s := &r.names.slots[i]; s.children > 0 && (s.exact != 0 || s.wildcard != 0) {
			if err := b.copyName(r, s); err != nil {
				return nil, err
			}
		}
	}
	var err error
	if b.rules.top, err = b.copyPolicy(r, r.top); err != nil {
		return nil, err
	}
	if r.addresses == nil {
		return b.finish(), nil
	}
	b.rules.addresses = &bart.Table[Policy]{}
	for prefix, p := range r.addresses.All() {
		if p, err = b.copyPolicy(r, p); err != nil {
			return nil, err
		}
		b.rules.addresses.Insert(prefix, p)
	}
	return b.finish(), nil
}

func (b *Builder) copyName(r *Rules, s *slot) error {
	var n Name
	n.setWire(r.names.nameAt(s))
	to, err := b.rules.names.insert(&n, 0)
	if err != nil {
		return err
	}
	if to.exact, err = b.copyPolicy(r, s.exact); err != nil {
		return err
	}
	to.wildcard, err = b.copyPolicy(r, s.wildcard)
	return err
}

func (b *Builder) copyPolicy(r *Rules, p Policy) (Policy, error) {
	if p < firstLocal {
		return p, nil
	}
	return b.intern(r.set(p))
}
