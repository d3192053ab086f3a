// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"

	"github.com/gaissmai/bart"
	"github.com/miekg/dns"
)

// Builder makes the Rules of a zone of its records.
type Builder struct {
	origin Name
	limits Limits
	rules  Rules
	// records counts the calls of Add.
	records int
	// addresses is what the rules for addresses take at most, in bytes.
	addresses int64
	// interned are the sets of local records that are in rules.data.
	interned map[string]Policy

	// group are the records of owner that Add has got, which are mostly together. There are at
	// most maxGroup.
	owner string
	group []dns.RR
}

const (
	// maxGroup bounds the records that wait in a group, which are not packed yet.
	maxGroup = 256
	// maxSet bounds the local records of one rule, in bytes: an answer has room for no more.
	maxSet = 64 << 10
	// address4Size and address6Size are what a rule for an address takes at most, in bytes: a feed
	// can choose prefixes of which each two have a path of their own in the table. Most rules take
	// 100 bytes.
	address4Size, address6Size = 256, 1024
)

// NewBuilder returns one for the zone of a fully qualified name.
func NewBuilder(origin string, limits Limits) (*Builder, error) {
	b := &Builder{limits: limits, interned: map[string]Policy{}}
	if !b.origin.Set(origin) || origin == "." {
		return nil, fmt.Errorf("%q: expected the name of a zone, fully qualified", origin)
	}
	b.rules.Stats.Skipped = map[Trigger]int{}
	return b, nil
}

// Add takes a record. Its error is for a zone that is not to be used, such as ErrTooLarge; a record
// that is no rule is skipped and counted.
func (b *Builder) Add(rr dns.RR) error {
	if b.records++; b.limits.Records > 0 && b.records > b.limits.Records {
		return b.limits.tooManyRecords()
	}
	h := rr.Header()
	if h.Name != b.owner || len(b.group) == maxGroup {
		if err := b.flush(); err != nil {
			return err
		}
		b.owner = h.Name
	}
	b.group = append(b.group, rr)
	return nil
}

// Rules returns those of all records. The Builder is not used again.
func (b *Builder) Rules() (*Rules, error) {
	if err := b.flush(); err != nil {
		return nil, err
	}
	if b.rules.SOA == nil {
		return nil, errors.New("expected an SOA record at the name of the zone")
	}
	b.rules.names.finish()
	b.rules.data = append(make([]byte, 0, len(b.rules.data)), b.rules.data...)
	r := b.rules
	return &r, nil
}

// flush takes the records of one owner.
func (b *Builder) flush() error {
	group := b.group
	b.group = b.group[:0]
	if len(group) == 0 {
		return nil
	}
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

// size returns how many bytes the rules take so far. Local records count twice, as interned has
// them too.
func (b *Builder) size() int64 {
	r := &b.rules
	return int64(r.names.finished()) + 2*int64(len(r.data)) + b.addresses
}

// apex takes the records at the name of the zone.
func (b *Builder) apex(group []dns.RR) error {
	for _, rr := range group {
		soa, ok := rr.(*dns.SOA)
		if !ok {
			continue // NS and the like are of the zone, not of rules
		}
		if b.rules.SOA != nil && !dns.IsDuplicate(soa, b.rules.SOA) {
			return fmt.Errorf("%s: two SOA records, expected one", b.owner)
		}
		b.rules.SOA = soa
	}
	return nil
}

// ruleRecords returns the records that make a rule: not those by which a zone is signed or
// delegated, which no answer is made of.
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

// bad counts records that are no rule.
func (b *Builder) bad(group []dns.RR, why string) {
	s := &b.rules.Stats
	if s.Bad == 0 {
		s.FirstBad = fmt.Sprintf("%s %s: %s", group[0].Header().Name, dns.Type(group[0].Header().Rrtype), why)
	}
	s.Bad += len(group)
}

// add takes the records of one rule.
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
		return b.addAddress(prefix, text(n.wire[:n.size]), group)
	default:
		b.rules.Stats.Skipped[t] += len(group)
		return nil
	}
}

func (b *Builder) addName(n *Name, group []dns.RR) error {
	place := &b.rules.top
	without, wildcard := 0, n.isWildcard()
	if wildcard {
		without = 1
	}
	if without < n.labels {
		s, err := b.rules.names.insert(n, without)
		if err != nil {
			return err
		}
		place = &s.exact
		if wildcard {
			place = &s.wildcard
		}
	}
	p, err := b.policy(*place, group, "")
	if *place == 0 && p != 0 {
		b.rules.Stats.Names++
	}
	*place = p
	return err
}

func (b *Builder) addAddress(prefix netip.Prefix, self string, group []dns.RR) error {
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
		if prefix.Addr().Is4() {
			b.addresses += address4Size
		} else {
			b.addresses += address6Size
		}
	}
	r.addresses.Insert(prefix, p)
	r.v4 = r.v4 || prefix.Addr().Is4()
	r.v6 = r.v6 || prefix.Addr().Is6()
	return nil
}

// policy returns the policy of an owner that has one of old already, 0 for none, and gets
// records. self is what a CNAME has as its target in an obsolete form of Passthru.
func (b *Builder) policy(old Policy, group []dns.RR, self string) (Policy, error) {
	p := old
	var set []byte
	hasCNAME := false // in set, which has nothing else then
	if old >= firstLocal {
		set = b.rules.set(old)
		set = set[:len(set):len(set)]
		hasCNAME = binary.BigEndian.Uint16(set[1:]) == dns.TypeCNAME // behind the root
	}
	for _, rr := range group {
		if action := actionOf(rr, self); action != NoAction {
			if p != 0 && p != Policy(action) {
				return old, errCNAME
			}
			p = Policy(action)
			continue
		}
		record, err := packed(rr)
		if err != nil {
			b.bad([]dns.RR{rr}, err.Error())
			continue
		}
		if contains(set, record) {
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
	return b.intern(set)
}

// actionOf returns the action that a CNAME record stands for, NoAction for any other record.
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

// packed returns a record in wire format, with the root as its owner.
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

// contains reports whether a set has a record.
func contains(set, record []byte) bool {
	for len(set) > 0 {
		const header = 11 // the root, type, class, TTL, size
		end := header + int(binary.BigEndian.Uint16(set[header-2:]))
		if string(set[:end]) == string(record) {
			return true
		}
		set = set[end:]
	}
	return false
}

// intern returns the policy of a set of local records.
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
	return p, nil
}
