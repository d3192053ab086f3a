// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/shell"
)

// LoopRemedy is what to do about a DNS server that forwards the queries that it gets back here.
const LoopRemedy = "that server has to ask another one than a resolver address of its network, or forward in this block another server"

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
