// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"time"

	"github.com/miekg/dns"
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
	case under(qname, domain):
		return domain
	case zone != ".":
		return zone
	}
	for _, reverse := range []string{"in-addr.arpa.", "ip6.arpa."} {
		if under(qname, reverse) {
			return reverse
		}
	}
	labels := dns.Split(qname)
	return qname[labels[len(labels)-1]:]
}

// maxName is the longest domain name as text, but for escapes, which make it
// longer than it is (RFC 1035, section 2.3.4: 255 bytes on the wire).
const maxName = 254

// soa is the SOA record of a negative answer. Its serial tells the age of the
// snapshot.
func soa(owner string, snapshot time.Time) dns.RR {
	server, mailbox := "ns.dns."+owner, "hostmaster."+owner
	if len(mailbox) > maxName {
		// Nobody reads these two; they must only fit into a name.
		server, mailbox = owner, owner
	}
	return &dns.SOA{
		Hdr:     dns.RR_Header{Name: owner, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: negativeTTL},
		Ns:      server,
		Mbox:    mailbox,
		Serial:  uint32(snapshot.Unix()),
		Refresh: 7200,
		Retry:   1800,
		Expire:  86400,
		Minttl:  negativeTTL,
	}
}
