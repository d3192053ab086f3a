// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// negativeTTL bounds the time in seconds that a resolver in a guest caches a denial (RFC 2308, section 5). It is short:
// a port can be bound at any moment.
const negativeTTL = 5

// negativeOwner returns the owner of the SOA record in a negative answer: the asker's domain, or the zone of the
// Corefile, or the last label of the name. It is never the root: a resolver might deny other names by the
// record (RFC 8020). qname must not be the root.
func negativeOwner(qname, domain, zone string) string {
	switch {
	case names.Under(qname, domain):
		return domain
	case zone != ".":
		return zone
	}
	for _, reverse := range []string{"in-addr.arpa.", "ip6.arpa."} {
		if names.Under(qname, reverse) {
			return reverse
		}
	}
	labels := dns.Split(qname)
	return qname[labels[len(labels)-1]:]
}
