// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// negativeTTL is how long a resolver in a guest may remember that there is no
// such name, in seconds (RFC 2308, section 5): short, since a port can appear at
// any moment.
const negativeTTL = 5

// negativeOwner is the zone in whose name a negative answer speaks: the asker's
// domain, else the zone of the Corefile, else the top of the name. It is never
// the root, or a resolver that prunes below a name error (RFC 8020) would lose
// more than the name; the root is no question here either.
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
