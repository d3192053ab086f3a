// SPDX-License-Identifier: Apache-2.0

package names

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/testkit"
)

// complaints collects what is reported.
type complaints []string

func (c *complaints) report(where, value string, err error) {
	*c = append(*c, value)
}

// standing collects what holds of what was reported, by key.
type standing map[string][]string

// reports returns the Reports that collect.
func (s standing) reports() Reports {
	of := ""
	return Reports{
		Begin: func(key string) {
			of = key
			delete(s, key)
		},
		Bad: func(where, value string, err error) {
			s[of] = append(s[of], fmt.Sprintf("%s %s %v", where, value, err))
		},
	}
}

// show is an answer in one line.
func show(a Answer) string {
	var all []string
	for _, addr := range a.V4 {
		all = append(all, addr.String())
	}
	for _, addr := range a.V6 {
		all = append(all, addr.String())
	}
	all = append(all, a.PTR...)
	rrs := a.RRs.Of(dns.TypeANY)
	for i, data := range testkit.Data(rrs) {
		all = append(all, dns.TypeToString[rrs[i].Header().Rrtype]+":"+strings.ReplaceAll(data, " ", "/"))
	}
	return strings.Join(all, " ")
}

func TestParseRecord(t *testing.T) {
	tests := []struct {
		name, key, value string
		want             string // addresses, or targets
		bad              string
	}{
		{"one", "a.", "10.0.0.4", "10.0.0.4", ""},
		{"both families", "a.", "aef0::4 10.0.0.4", "10.0.0.4 aef0::4", ""},
		{"spaces", "a.", "  10.0.0.6   20.0.0.4 ", "10.0.0.6 20.0.0.4", ""},
		{"commas", "a.", "10.0.0.6,20.0.0.4", "10.0.0.6 20.0.0.4", ""},
		{"any mix", "a.", ",10.0.0.6 , 20.0.0.4,,\t::1\n", "10.0.0.6 20.0.0.4 ::1", ""},
		{"order is kept", "a.", "10.0.0.9 10.0.0.1", "10.0.0.9 10.0.0.1", ""},
		{"twice", "a.", "10.0.0.4 10.0.0.4 ::1 ::1", "10.0.0.4 ::1", ""},
		{"a bad one", "a.", "10.0.0.300 10.0.0.4", "10.0.0.4", "10.0.0.300"},
		{"prefix", "a.", "10.0.0.4/24", "", "10.0.0.4/24"},
		{"zone", "a.", "fe80::1%eth0", "", "fe80::1%eth0"},
		{"name for address", "a.", "b.example.org", "", "b.example.org"},
		{"empty", "a.", "", "", ""},
		{"mapped", "a.", "::ffff:10.0.0.1", "::ffff:10.0.0.1", ""},
		{"ptr", "4.0.0.10.in-addr.arpa.", "VM1.ovn.org", "VM1.ovn.org.", ""},
		{"several ptr", "4.0.0.10.in-addr.arpa.", "vm1.ovn.org, vm1 vm1.", "vm1.ovn.org. vm1.", ""},
		{"v6 ptr", "4.ip6.arpa.", "vm1", "vm1.", ""},
		{"address for name", "4.0.0.10.in-addr.arpa.", "10.0.0.4 vm1", "vm1.", "10.0.0.4"},
		{"bad target", "4.0.0.10.in-addr.arpa.", "a..b", "", "a..b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var bad complaints
			e := parseRecord(tt.key, tt.value, bad.report)
			if got := show(e.answer(Provenance{})); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if got := strings.Join(bad, " "); got != tt.bad {
				t.Errorf("bad: got %s, want %s", got, tt.bad)
			}
		})
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add("a.", "10.0.0.4, ::1 x")
	f.Add("1.in-addr.arpa.", "vm1 ..")
	f.Fuzz(func(t *testing.T, name, value string) {
		var bad complaints
		e := parseRecord(name, value, bad.report)
		a := e.answer(Provenance{})
		if n := len(a.V4) + len(a.V6) + len(a.PTR) + len(bad); n > len(Words(value)) {
			t.Fatalf("%d results of %d words", n, len(Words(value)))
		}
		for _, addr := range a.V4 {
			if !addr.Is4() {
				t.Fatalf("%s is not IPv4", addr)
			}
		}
		for _, addr := range a.V6 {
			if !addr.Is6() || addr.Zone() != "" {
				t.Fatalf("%s is not IPv6 without a zone", addr)
			}
		}
		for _, target := range a.PTR {
			if _, err := presentation(target); err != nil {
				t.Fatalf("target %q: %v", target, err)
			}
		}
	})
}
