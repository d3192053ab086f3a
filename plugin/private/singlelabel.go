// SPDX-License-Identifier: Apache-2.0

package private

import (
	"strings"

	"github.com/miekg/dns"
	"golang.org/x/net/publicsuffix"
)

// isSingleLabel reports whether a name has one label and is no top-level domain: a guest's resolver did not complete
// it. NS, SOA, DS and DNSKEY are exempt: a validating resolver asks them for any name.
func isSingleLabel(qname string, qtype uint16) bool {
	switch qtype {
	case dns.TypeNS, dns.TypeSOA, dns.TypeDS, dns.TypeDNSKEY:
		return false
	}
	return qname != "." && dns.CountLabel(qname) == 1 && !isTLD(strings.TrimSuffix(qname, "."))
}

// isTLD uses the list of the binary. Some top-level domains have addresses, and denying one denies all names below
// (RFC 8020).
func isTLD(label string) bool {
	// No TLD has escapes; an escaped dot would end the label.
	if strings.Contains(label, `\`) {
		return false
	}
	// The list lacks a domain if all names below are suffixes.
	_, listed := publicsuffix.PublicSuffix("x." + label)
	return listed
}
