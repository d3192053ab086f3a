// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/shell"
)

const dnsOverTLS = 853 // RFC 7858, section 3.1

// DigAt returns the dig command for the question of r at an address, none for DNS over HTTPS.
func DigAt(address string, r *dns.Msg) []string {
	a, err := netip.ParseAddrPort(address)
	if err != nil || len(r.Question) == 0 {
		return nil
	}
	q, tls := r.Question[0], ""
	if a.Port() == dnsOverTLS {
		tls = "+tls +tls-ca "
	}
	return []string{fmt.Sprintf("dig %s@%s -p %d %s %s", tls, a.Addr(), a.Port(), shell.Word(q.Name), dns.Type(q.Qtype))}
}
