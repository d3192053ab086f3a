// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/testkit"
)

// complaints collects what is reported.
type complaints []string

func (c *complaints) report(where, value string, err error) {
	*c = append(*c, value)
}

func TestParsePortAddresses(t *testing.T) {
	tests := []struct {
		name     string
		elements []string
		want     string
		dynamic  bool
		bad      string
	}{
		{"none", nil, "", false, ""},
		{"one", []string{"02:00:00:00:00:01 10.0.0.4"}, "10.0.0.4", false, ""},
		{"several, sorted", []string{"02:00:00:00:00:01 aef0::4 10.0.0.6", "02:00:00:00:00:02 10.0.0.4 10.0.0.6"}, "10.0.0.4 10.0.0.6 aef0::4", false, ""},
		{"mac alone", []string{"02:00:00:00:00:01"}, "", false, ""},
		{"unknown", []string{"unknown", "02:00:00:00:00:01 10.0.0.4"}, "10.0.0.4", false, ""},
		{"router", []string{"router"}, "", false, ""},
		{"router port", []string{"02:00:00:00:00:01 10.0.0.1/24 fd00::1/64"}, "10.0.0.1 fd00::1", false, ""},
		{"dynamic", []string{"dynamic"}, "", true, ""},
		{"dynamic with mac", []string{"02:00:00:00:00:01 dynamic"}, "", true, ""},
		{"dynamic with wish", []string{"dynamic 10.0.0.5"}, "", true, ""},
		{"bad address", []string{"02:00:00:00:00:01 10.0.0 10.0.0.4"}, "10.0.0.4", false, "10.0.0"},
		{"bad mac", []string{"02:00:00:00:01 10.0.0.4"}, "10.0.0.4", false, "02:00:00:00:01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var bad complaints
			got := parsePortAddresses(tt.elements, bad.report)
			if text := show(names.Answer{V4: got.static}); text != tt.want || got.dynamic != tt.dynamic {
				t.Errorf("got %s, %v; want %s, %v", text, got.dynamic, tt.want, tt.dynamic)
			}
			if got := strings.Join(bad, " "); got != tt.bad {
				t.Errorf("bad: got %s, want %s", got, tt.bad)
			}
		})
	}
}

func FuzzParsePortAddresses(f *testing.F) {
	f.Add("02:00:00:00:00:01 10.0.0.4 aef0::4", "dynamic 10.0.0.5")
	f.Fuzz(func(t *testing.T, a, b string) {
		got := parsePortAddresses([]string{a, b}, func(string, string, error) {})
		if !slices.IsSortedFunc(got.static, netip.Addr.Compare) {
			t.Fatalf("not sorted: %v", got.static)
		}
	})
}

func TestParseDomainName(t *testing.T) {
	tests := []struct{ in, want, bad string }{
		{`"example.org"`, "example.org.", ""},
		{"Example.ORG.", "example.org.", ""},
		{` "a" `, "a.", ""},
		{`"\"a\""`, `\"a\".`, ""}, // one pair
		{"", "", ""},
		{`""`, "", ""},
		{`" "`, "", ""},
		{".", "", ""},
		{`"."`, "", ""},
		{"a..b", "", "a..b"},
		{`"a..b"`, "", `"a..b"`},
	}
	for _, tt := range tests {
		var bad complaints
		if got := parseDomainName(tt.in, bad.report); got != tt.want || strings.Join(bad, " ") != tt.bad {
			t.Errorf("parseDomainName(%q) = %q, want %q; bad: %q, want %q", tt.in, got, tt.want, bad, tt.bad)
		}
	}
}

func TestParseHostname(t *testing.T) {
	tests := []struct{ in, want, bad string }{
		{"vm2", "vm2.", ""},
		{`"vm2"`, "vm2.", ""},
		{`"VM2.example.org"`, "vm2.example.org.", ""},
		{` "vm2" `, "vm2.", ""},
		{`""vm2""`, `\"vm2\".`, ""}, // one pair, and no constant
		{`"\"vm2\""`, `\"vm2\".`, ""},
		{`"b\u00fcro"`, `b\195\188ro.`, ""},
		{`"büro"`, `b\195\188ro.`, ""},
		{`"dot\\.ted"`, `dot\.ted.`, ""},
		{`vm"2`, `vm\"2.`, ""},
		{`"vm2`, `\"vm2.`, ""},
		{`"`, `\".`, ""},
		{`""`, "", ""},
		{"", "", ""},
		{`"a..b"`, "", `"a..b"`},
	}
	for _, tt := range tests {
		var bad complaints
		if got := parseHostname(tt.in, bad.report); got != tt.want || strings.Join(bad, " ") != tt.bad {
			t.Errorf("parseHostname(%q) = %q, want %q; bad: %q, want %q", tt.in, got, tt.want, bad, tt.bad)
		}
	}
}

// show is an answer in one line.
func show(a names.Answer) string {
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

// plain is a name without escapes.
var plain = regexp.MustCompile(`^[a-z0-9_.-]+$`)

func FuzzParseDomainName(f *testing.F) {
	f.Add(`"example.org"`)
	f.Fuzz(func(t *testing.T, s string) {
		d := parseDomainName(s, func(string, string, error) {})
		if again := parseDomainName(d, func(string, string, error) {}); d != "" && plain.MatchString(d) && again != d {
			t.Fatalf("%q became %q and then %q", s, d, again)
		}
	})
}
