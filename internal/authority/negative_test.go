// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func TestNegativeOwner(t *testing.T) {
	tests := []struct{ name, qname, domain, zone, want string }{
		{"in the asker's domain", "a.red.example.", "red.example.", ".", "red.example."},
		{"the domain itself", "red.example.", "red.example.", ".", "red.example."},
		{"not just the same letters", "a.infrared.example.", "red.example.", ".", "example."},
		{"in a zone of the Corefile", "a.b.org.", "red.example.", "b.org.", "b.org."},
		{"nowhere", "a.b.org.", "", ".", "org."},
		{"one label", "vm1.", "", ".", "vm1."},
		{"reverse", "1.0.0.10.in-addr.arpa.", "", ".", "in-addr.arpa."},
		{"reverse of IPv6", "1.0.ip6.arpa.", "", ".", "ip6.arpa."},
		{"a dot inside the last label", `a.b\.c.`, "", ".", `b\.c.`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := negativeOwner(tt.qname, tt.domain, tt.zone); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Whatever the domain, a negative answer fits into a message.
func TestNegativeAnswerPacks(t *testing.T) {
	for n := 200; n < 254; n++ {
		owner := dns.Fqdn(strings.TrimSuffix(strings.Repeat(strings.Repeat("a", 49)+".", 6)[:n], "."))
		m := new(dns.Msg).SetQuestion(owner, dns.TypeA)
		m.Ns = []dns.RR{soa(owner, time.Time{}, negativeTTL)}
		b, err := m.Pack()
		if err == nil {
			err = new(dns.Msg).Unpack(b)
		}
		if err != nil {
			t.Fatalf("domain of %d bytes: %v", n, err)
		}
	}
}
