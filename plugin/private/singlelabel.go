// SPDX-License-Identifier: Apache-2.0

package private

import (
	"strings"

	"github.com/miekg/dns"
	"golang.org/x/net/publicsuffix"
)

// isSingleLabel reports whether a question is for a name of one label that is no top-level
// domain: one that a guest's resolver has not completed. What says where zones begin and whether
// they are signed (NS, SOA, DS, DNSKEY) is not among that, whatever the name: a resolver that
// validates asks for it.
func isSingleLabel(qname string, qtype uint16) bool {
	switch qtype {
	case dns.TypeNS, dns.TypeSOA, dns.TypeDS, dns.TypeDNSKEY:
		return false
	}
	return qname != "." && dns.CountLabel(qname) == 1 && !isTLD(strings.TrimSuffix(qname, "."))
}

// isTLD reports whether a label is a top-level domain, by the list that the binary was built with. Some
// top-level domains have addresses, and a denial of one denies all names below it (RFC 8020).
func isTLD(label string) bool {
	// A label with escapes is no TLD, and an escaped dot would be taken for the end of a label.
	if strings.Contains(label, `\`) {
		return false
	}
	// Where all names below a domain are suffixes, the list does not have the domain itself.
	_, listed := publicsuffix.PublicSuffix("x." + label)
	return listed
}
