// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/shell"
)

// DigAt returns the command that asks the upstream at an address the question of r. It returns none for an
// upstream of DNS over HTTPS.
func DigAt(address string, r *dns.Msg) []string {
	a, err := netip.ParseAddrPort(address)
	if err != nil || len(r.Question) == 0 {
		return nil
	}
	q := r.Question[0]
	return []string{fmt.Sprintf("dig @%s -p %d %s %s", a.Addr(), a.Port(), shell.Word(q.Name), dns.Type(q.Qtype))}
}
