// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"

	"github.com/gaissmai/bart"
	"github.com/miekg/dns"
)

// Builder makes or edits the Rules of a zone.
type Builder struct {
	origin Name
	limits Limits
	rules  Rules
	// edits is set by Rules.Edit.
	edits bool
	// interned are sets in rules.data; while editing, only new ones.
	interned map[string]Policy

	// group has up to maxGroup consecutive records of one owner. deletes is set for deleted ones.
	owner   string
	group   []dns.RR
	deletes bool
}

const (
	maxGroup = 256
	// maxSet is the bytes of a rule's local records: an answer has no room for more.
	maxSet = 64 << 10
	// address4Size and address6Size are the most bytes of a rule, as a feed can choose prefixes without
	// shared paths. Most rules take 100.
	address4Size, address6Size = 256, 1024
)

// NewBuilder returns a Builder for a fully qualified zone.
func NewBuilder(origin string, limits Limits) (*Builder, error) {
	b := &Builder{limits: limits, interned: map[string]Policy{}}
	if !b.origin.Set(origin) || origin == "." {
		return nil, fmt.Errorf("%q: expected the name of a zone, fully qualified", origin)
	}
	b.rules.Stats.Skipped = map[Trigger]int{}
	return b, nil
}

// Add takes a record, and skips and counts one that is no rule. An error, such as ErrTooLarge, makes the zone
// unusable; it may come with a later record.
func (b *Builder) Add(rr dns.RR) error {
	if b.rules.records++; b.limits.Records > 0 && b.rules.records > b.limits.Records {
		return b.limits.tooManyRecords()
	}
	return b.take(rr, false)
}

func (b *Builder) take(rr dns.RR, deletes bool) error {
	h := rr.Header()
	if h.Name != b.owner || len(b.group) == maxGroup || deletes != b.deletes {
		if err := b.flush(); err != nil {
			return err
		}
		b.owner, b.deletes = h.Name, deletes
	}
	b.group = append(b.group, rr)
	return nil
}

// Rules returns the rules of all records. The Builder must not be used again.
func (b *Builder) Rules() (*Rules, error) {
	if err := b.flush(); err != nil {
		return nil, err
	}
	if b.rules.SOA == nil {
		return nil, errors.New("expected an SOA record at the name of the zone")
	}
	if b.edits {
		return b.edited()
	}
	return b.finish(), nil
}

func (b *Builder) finish() *Rules {
	r := b.rules
	r.names.finish()
	r.data = append(make([]byte, 0, len(r.data)), r.data...)
	return &r
}

func (b *Builder) flush() error {
	group := b.group
	b.group = b.group[:0]
	if len(group) == 0 {
		return nil
	}
	err := b.takeGroup(group)
	if err == nil && b.deletes {
		err = b.checkCounts()
	}
	return err
}

func (b *Builder) takeGroup(group []dns.RR) error {
	var n Name
	if !n.Set(b.owner) {
		b.bad(group, "expected a domain name")
		return nil
	}
	if !n.cut(&b.origin) {
		b.bad(group, "expected a name in the zone")
		return nil
	}
	if n.labels == 0 {
		return b.apex(group)
	}
	group = b.ruleRecords(group)
	if len(group) == 0 {
		return nil
	}
	if err := b.add(&n, group); err != nil {
		return fmt.Errorf("%s: %w", b.owner, err)
	}
	if b.limits.Bytes > 0 && b.size() > b.limits.Bytes {
		return b.limits.tooManyBytes()
	}
	return nil
}

// size is in bytes. Local records count twice, with interned.
func (b *Builder) size() int64 {
	r := &b.rules
	names, addresses := r.names.finished(), 0
	if b.edits {
		names = r.names.size()
	}
	if r.addresses != nil {
		addresses = address4Size*r.addresses.Size4() + address6Size*r.addresses.Size6()
	}
	return int64(names) + 2*int64(len(r.data)) + int64(addresses)
}

func (b *Builder) apex(group []dns.RR) error {
	for _, rr := range group {
		soa, ok := rr.(*dns.SOA)
		if !ok {
			continue // NS and the like are no rules
		}
		if b.edits {
			return fmt.Errorf("%s: an SOA record among others, expected it from SetSOA", b.owner)
		}
		if b.rules.SOA != nil && !dns.IsDuplicate(soa, b.rules.SOA) {
			return fmt.Errorf("%s: two SOA records, expected one", b.owner)
		}
		b.rules.SOA = soa
	}
	return nil
}

// ruleRecords removes DNSSEC and delegation records.
func (b *Builder) ruleRecords(group []dns.RR) []dns.RR {
	rest := group[:0]
	for _, rr := range group {
		h := rr.Header()
		switch h.Rrtype {
		case dns.TypeRRSIG, dns.TypeNSEC, dns.TypeNSEC3, dns.TypeNSEC3PARAM, dns.TypeDNSKEY:
		case dns.TypeNS, dns.TypeDNAME, dns.TypeSOA:
			b.bad([]dns.RR{rr}, "expected no NS, DNAME or SOA record below the name of the zone")
		default:
			if h.Class != dns.ClassINET {
				b.bad([]dns.RR{rr}, "expected class IN")
				continue
			}
			if !hasData(rr) {
				b.bad([]dns.RR{rr}, "the record has no data, or half of it")
				continue
			}
			rest = append(rest, rr)
		}
	}
	return rest
}

func (b *Builder) bad(group []dns.RR, why string) {
	s := &b.rules.Stats
	if s.Bad == 0 {
		s.FirstBad = fmt.Sprintf("%s %s: %s", group[0].Header().Name, dns.Type(group[0].Header().Rrtype), why)
	}
	s.Bad += b.signed(len(group))
}

// signed returns n for added records, -n for deleted ones.
func (b *Builder) signed(n int) int {
	if b.deletes {
		return -n
	}
	return n
}

func (b *Builder) add(n *Name, group []dns.RR) error {
	switch t := triggerOf(n); t {
	case QName:
		return b.addName(n, group)
	case ResponseIP:
		prefix, err := prefixOf(n)
		if err != nil {
			b.bad(group, err.Error())
			return nil
		}
		b.rules.ambiguous = b.rules.ambiguous || prefix.Addr().Is6() && string(appendOwner(nil, prefix)) != string(n.wire[:n.size])
		return b.addAddress(prefix, text(n.wire[:n.size]), group)
	default:
		b.rules.Stats.Skipped[t] += b.signed(len(group))
		return nil
	}
}

func (b *Builder) addName(n *Name, group []dns.RR) error {
	if b.deletes {
		return b.deleteName(n, group)
	}
	place := &b.rules.top
	without := n.withoutAsterisk()
	if without < n.labels {
		s, err := b.rules.names.insert(n, without)
		if err != nil {
			return err
		}
		place = s.policy(without)
	}
	p, err := b.policy(*place, group, "")
	if *place == 0 && p != 0 {
		b.rules.Stats.Names++
	}
	*place = p
	return err
}

func (b *Builder) addAddress(prefix netip.Prefix, self string, group []dns.RR) error {
	if b.deletes {
		return b.deleteAddress(prefix, self, group)
	}
	r := &b.rules
	if r.addresses == nil {
		r.addresses = &bart.Table[Policy]{}
	}
	old, there := r.addresses.Get(prefix)
	p, err := b.policy(old, group, self)
	if err != nil || p == 0 {
		return err
	}
	if !there {
		r.Stats.Addresses++
	}
	b.setAddress(prefix, p)
	return nil
}

// setAddress removes the rule for p 0.
func (b *Builder) setAddress(prefix netip.Prefix, p Policy) {
	r := &b.rules
	switch { // the table of the Rules before is in use
	case p == 0:
		r.addresses = r.addresses.DeletePersist(prefix)
	case b.edits:
		r.addresses = r.addresses.InsertPersist(prefix, p)
	default:
		r.addresses.Insert(prefix, p)
	}
	r.v4, r.v6 = r.addresses.Size4() > 0, r.addresses.Size6() > 0
}

// policy adds records to old, 0 for none. self is the CNAME target of the obsolete Passthru.
func (b *Builder) policy(old Policy, group []dns.RR, self string) (Policy, error) {
	p := old
	var set []byte
	hasCNAME := false // then set has nothing else
	if old >= firstLocal {
		set = b.rules.set(old)
		set = set[:len(set):len(set)]
		hasCNAME = binary.BigEndian.Uint16(set[1:]) == dns.TypeCNAME // behind the root
	}
	for _, rr := range group {
		if action := actionOf(rr, self); action != NoAction {
			if err := b.mayBecome(p, action); err != nil {
				return old, err
			}
			p = Policy(action)
			continue
		}
		record, err := packed(rr)
		switch {
		case err != nil && b.edits: // the Rules do not say whether such a record keeps its name in the zone
			return old, err
		case err != nil:
			b.bad([]dns.RR{rr}, err.Error())
			continue
		case b.edits && contains(set, record, sameRecord):
			return old, errThere
		case contains(set, record, bytes.Equal):
			continue
		}
		isCNAME := rr.Header().Rrtype == dns.TypeCNAME
		if p != 0 && (p < firstLocal || isCNAME || hasCNAME) {
			return old, errCNAME
		}
		if len(set)+len(record) > maxSet {
			return old, errSet
		}
		set, hasCNAME = append(set, record...), isCNAME
		p = firstLocal // the place follows
	}
	if p < firstLocal {
		return p, nil
	}
	b.forget(old)
	return b.intern(set)
}

// mayBecome checks that a rule with policy p, 0 for none, can get an action.
func (b *Builder) mayBecome(p Policy, action Action) error {
	switch {
	case p != 0 && p != Policy(action):
		return errCNAME
	case p != 0 && b.edits:
		return errThere
	}
	return nil
}

func actionOf(rr dns.RR, self string) Action {
	cname, ok := rr.(*dns.CNAME)
	if !ok {
		return NoAction
	}
	target := dns.CanonicalName(cname.Target)
	if self != "" && target == self {
		return Passthru
	}
	return specialTargets[target]
}

var (
	errCNAME = errors.New("a CNAME record and another record, expected either")
	errSet   = fmt.Errorf("the records of one name take more than %d bytes, expected what an answer has room for", maxSet)
)

// packed returns wire format with the root as owner.
func packed(rr dns.RR) ([]byte, error) {
	c := dns.Copy(rr)
	c.Header().Name = "."
	buf := make([]byte, dns.Len(c)+16)
	n, err := dns.PackRR(c, buf, 0, nil, false)
	if err != nil {
		return nil, fmt.Errorf("packing it: %w", err)
	}
	if _, _, err := dns.UnpackRR(buf[:n], 0); err != nil {
		return nil, fmt.Errorf("unpacking it: %w", err)
	}
	return buf[:n], nil
}

// recordHeader precedes RDATA in a set: root, type, class, TTL and length.
const recordHeader = 11

func contains(set, record []byte, same func(a, b []byte) bool) bool {
	from, _ := find(set, record, same)
	return from >= 0
}

// find returns -1 for none.
func find(set, record []byte, same func(a, b []byte) bool) (from, to int) {
	for from < len(set) {
		to = from + recordHeader + int(binary.BigEndian.Uint16(set[from+recordHeader-2:]))
		if same(set[from:to], record) {
			return from, to
		}
		from = to
	}
	return -1, -1
}

// sameRecord ignores the TTL.
func sameRecord(a, b []byte) bool {
	const ttl, data = 5, 9
	return bytes.Equal(a[:ttl], b[:ttl]) && bytes.Equal(a[data:], b[data:])
}

func (b *Builder) intern(set []byte) (Policy, error) {
	if p, ok := b.interned[string(set)]; ok {
		return p, nil
	}
	r := &b.rules
	at := len(r.data)
	if at+4+len(set) > math.MaxUint32-firstLocal {
		return 0, errors.New("the local records take more than 4 GiB")
	}
	r.data = binary.BigEndian.AppendUint32(r.data, uint32(len(set)))
	r.data = append(r.data, set...)
	p := Policy(at) + firstLocal
	b.interned[string(set)] = p
	if b.edits {
		r.dead += 4 + len(set) // data may have it
	}
	return p, nil
}
