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
	// SOA must not be changed.
	SOA   *dns.SOA
	Stats Stats

	names table
	// top is the policy of *.ORIGIN.
	top Policy
	// addresses is nil for none; v4 and v6 are its families.
	addresses *bart.Table[Policy]
	v4, v6    bool
	// data has sets of local records: the size in 4 bytes, then wire format with the root as owner.
	data []byte

	// records counts all records of the zone.
	records int
	// ambiguous: an IPv6 prefix is not in appendOwner's form. Owners of one prefix can't be told apart by an
	// edit.
	ambiguous bool
	// dead counts data's unused bytes, at least.
	dead int
}

// Stats counts the rules of a zone.
type Stats struct {
	Names, Addresses int
	// Skipped are the rules with unsupported triggers.
	Skipped map[Trigger]int
	// Bad counts records that are no rule; FirstBad describes the first.
	Bad      int
	FirstBad string
}

// SameSkipped compares the numbers of skipped and bad records.
func (s *Stats) SameSkipped(other *Stats) bool {
	return s.Bad == other.Bad && maps.Equal(s.Skipped, other.Skipped)
}

// Name returns the policy of a name by RFC 4592, 0 for none: exact, else the closest encloser's wildcard. by
// is how many labels the rule lacks, see Trigger.
func (r *Rules) Name(n *Name) (p Policy, wildcard bool, by int) {
	if n.labels == 0 {
		return 0, false, 0 // the root is the zone's apex
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

// Trigger returns the name of a rule of Name, without the origin.
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

// HasAddresses reports whether response-IP rules apply to a query type.
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

// MayHaveAddresses reports whether answers may have addresses or hints.
func MayHaveAddresses(qtype uint16) bool {
	any := Rules{v4: true, v6: true}
	return any.HasAddresses(qtype)
}

// Address returns the policy of the longest prefix of any address, 0 for none. IPv4 lengths count in
// ::ffff:0:0/96. Among equals the smallest owner in wire format wins, as in BIND.
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

func (r *Rules) set(p Policy) []byte {
	at := uint32(p) - firstLocal
	size := binary.BigEndian.Uint32(r.data[at:])
	return r.data[at+4 : at+4+size]
}

// Size returns the bytes of the rules for names and the local data.
func (r *Rules) Size() int {
	return r.names.size() + len(r.data)
}

// Target returns a local CNAME's target for a name, "" if too long. If expanded, the name replaces the
// asterisk (draft-vixie-dnsop-dns-rpz-00, section 3.6).
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
