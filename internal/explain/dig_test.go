// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"

	"github.com/miekg/dns"
)

func TestDigAt(t *testing.T) {
	q := new(dns.Msg).SetQuestion("a b.test.", dns.TypeAAAA)
	for address, want := range map[string]string{
		"192.0.2.1:53":          "dig @192.0.2.1 -p 53 'a b.test.' AAAA",
		"[2001:db8::1]:853":     "dig +tls +tls-ca @2001:db8::1 -p 853 'a b.test.' AAAA",
		"https://resolver.test": "",
	} {
		got := ""
		for _, line := range DigAt(address, q) {
			got += line
		}
		if got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
