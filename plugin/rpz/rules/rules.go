// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"encoding/binary"
	"maps"
	"net/netip"
	"strings"

	"github.com/gaissmai/bart"
	"github.com/miekg/dns"
)

// Rules are the rules of one zone. They are immutable.
type Rules struct {
	// SOA is the SOA record of the zone. Do not change it.
	SOA   *dns.SOA
	Stats Stats

	names table
	// top is the policy of *.ORIGIN, for all names that have nothing in the zone.
	top Policy
	// addresses are the response-IP rules, nil for none; v4 and v6 say of which kind.
	addresses *bart.Table[Policy]
	v4, v6    bool
	// data has the sets of local records: of each the size in 4 bytes, then the records in wire
	// format, with the root as their owner. A Builder of a whole zone stores no set twice.
	data []byte

	// records is the number of records in the zone, whether or not they are rules.
	records int
	// ambiguous is set if an IPv6 prefix of the zone has another form than appendOwner gives it. Two
	// owners may then stand for one prefix, and the rules do not say which record is of which owner.
	ambiguous bool
	// dead is at least the number of bytes of data that no rule refers to.
	dead int
}

// Stats counts the rules of a zone.
type Stats struct {
	Names, Addresses int
	// Skipped are the rules with triggers that are not supported, by trigger.
	Skipped map[Trigger]int
	// Bad are the records that are no rule, FirstBad says why of the first.
	Bad      int
	FirstBad string
}

// SameSkipped reports whether as many records are skipped, or are no rules, as in other.
func (s *Stats) SameSkipped(other *Stats) bool {
	return s.Bad == other.Bad && maps.Equal(s.Skipped, other.Skipped)
}

// Name returns the policy of a name by RFC 4592, 0 for none: the rule of the name itself, else the wildcard
// below the closest name that the zone has. by is the part of the name that the rule has: all of the name, or
// with wildcard the part after the asterisk.
func (r *Rules) Name(n *Name) (p Policy, wildcard bool, by int) {
	if n.labels == 0 {
		return 0, false, 0 // the root is the apex of the zone, which no wildcard is for
	}
	p, wildcard, by = r.top, true, n.labels
	for i := n.labels - 1; i >= 0; i-- {
		place, found := r.names.find(n.suffix(i))
		if !found {
			return p, wildcard, by
		}
		s := &r.names.slots[place]
		if i == 0 {
			return s.exact, false, 0
		}
		p, by = s.wildcard, i
	}
	return p, wildcard, by
}

// Trigger returns the name of a rule that Name has found, without the origin.
func (n *Name) Trigger(wildcard bool, by int) string {
	switch s := text(n.suffix(by)); {
	case !wildcard:
		return s
	case s == ".":
		return "*."
	default:
		return "*." + s
	}
}

// HasAddresses reports whether there are response-IP rules for the answers to a type of query.
func (r *Rules) HasAddresses(qtype uint16) bool {
	switch qtype {
	case dns.TypeA:
		return r.v4
	case dns.TypeAAAA:
		return r.v6
	case dns.TypeANY, dns.TypeHTTPS, dns.TypeSVCB:
		return r.v4 || r.v6
	}
	return false
}

// MayHaveAddresses reports whether answers to a type of query have addresses or address hints.
func MayHaveAddresses(qtype uint16) bool {
	any := Rules{v4: true, v6: true}
	return any.HasAddresses(qtype)
}

// Address returns the policy of the longest prefix that an address of all is in, 0 for none. The
// length of one of IPv4 counts from the beginning of ::ffff:0:0/96. Of prefixes of the same length
// it is that whose owner in the zone is the smallest in wire format, as in BIND: the last byte or
// word of the address counts first.
func (r *Rules) Address(all []netip.Addr) (p Policy, prefix netip.Prefix) {
	if r.addresses == nil {
		return 0, prefix
	}
	for _, a := range all {
		found, policy, ok := r.addresses.LookupPrefixLPM(netip.PrefixFrom(a, a.BitLen()))
		if ok && (p == 0 || found != prefix && precedes(found, prefix)) {
			p, prefix = policy, found
		}
	}
	return p, prefix
}

// precedes reports whether the rule of prefix a precedes the rule of prefix b.
func precedes(a, b netip.Prefix) bool {
	la, lb := a.Bits()+128-a.Addr().BitLen(), b.Bits()+128-b.Addr().BitLen()
	if la != lb {
		return la > lb
	}
	return bytes.Compare(appendOwner(nil, a), appendOwner(nil, b)) < 0
}

// Records returns the local data of a policy for an owner, with TTLs of at most maxTTL seconds.
func (r *Rules) Records(p Policy, owner string, maxTTL uint32) []dns.RR {
	var all []dns.RR
	set := r.set(p)
	for at := 0; at < len(set); {
		rr, next, err := dns.UnpackRR(set, at)
		if err != nil {
			return all // it was packed by the Builder
		}
		h := rr.Header()
		h.Name, h.Ttl = owner, min(h.Ttl, maxTTL)
		all = append(all, rr)
		at = next
	}
	return all
}

// set returns the local records of a policy.
func (r *Rules) set(p Policy) []byte {
	at := uint32(p) - firstLocal
	size := binary.BigEndian.Uint32(r.data[at:])
	return r.data[at+4 : at+4+size]
}

// Size returns how many bytes the rules for names and the local data take.
func (r *Rules) Size() int {
	return r.names.size() + len(r.data)
}

// Target returns the target of a CNAME record of local data for a name. A wildcard target has the name
// instead of the asterisk (draft-vixie-dnsop-dns-rpz-00, section 3.6), and expanded is set. The target is ""
// if it would be too long.
func Target(cname *dns.CNAME, name string) (target string, expanded bool) {
	rest, expanded := strings.CutPrefix(cname.Target, "*.")
	if !expanded {
		return cname.Target, false
	}
	var n Name
	if name == "." || !n.Set(name+rest) {
		return "", true
	}
	return name + rest, true
}
