// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// negativeTTL is in seconds (RFC 2308, section 5): a port can be bound at any moment.
const negativeTTL = 5

// negativeOwner returns the SOA owner: the asker's domain, the Corefile's zone, or the last label. The root
// might deny other names (RFC 8020). qname must not be the root.
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
