// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
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
			if text := ovn.ShowAnswer(names.Answer{V4: got.Static}); text != tt.want || got.dynamic != tt.dynamic {
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
		if !slices.IsSortedFunc(got.Static, netip.Addr.Compare) {
			t.Fatalf("not sorted: %v", got.Static)
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

func TestParseDNSServers(t *testing.T) {
	many := ""
	for i := range maxDNSServers + 1 {
		many += fmt.Sprintf("10.0.0.%d ", i+1)
	}
	for _, tt := range []struct {
		name, value, want string
		bad               int
	}{
		{"none", "", "[]", 0},
		{"one", "9.9.9.9", "[9.9.9.9]", 0},
		{"one in braces", "{9.9.9.9}", "[9.9.9.9]", 0},
		{"several", "{9.9.9.9, 8.8.8.8}", "[9.9.9.9 8.8.8.8]", 0},
		{"without commas", "{ 9.9.9.9 8.8.8.8,1.1.1.1, }", "[9.9.9.9 8.8.8.8 1.1.1.1]", 0},
		{"IPv6", "{fd00::254,2620:fe::fe}", "[fd00::254 2620:fe::fe]", 0},
		{"link-local", "fe80::1", "[fe80::1]", 0},
		{"both families", "{9.9.9.9,fd00::254}", "[9.9.9.9 fd00::254]", 0},
		{"twice", "{9.9.9.9,9.9.9.9}", "[9.9.9.9]", 0},
		{"no end", "{9.9.9.9", "[]", 1},
		{"a name", "{9.9.9.9,dns.test}", "[9.9.9.9]", 1},
		{"quotation marks", `"9.9.9.9"`, "[]", 1},
		{"a prefix length", "9.9.9.9/32", "[]", 1},
		{"a zone", "fe80::1%eth0", "[]", 1},
		{"the guest itself", "{127.0.0.53,::1}", "[]", 2},
		{"nobody", "{0.0.0.0,::}", "[]", 2},
		{"everybody", "{224.0.0.251,ff02::fb,255.255.255.255}", "[]", 3},
		{"mapped", "::ffff:9.9.9.9", "[]", 1},
		{"too many", "{" + many + "}", "[" + strings.TrimSpace(strings.TrimSuffix(many, "10.0.0.17 ")) + "]", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bad := 0
			got := parseDNSServers(tt.value, func(string, string, error) { bad++ })
			if fmt.Sprint(got) != tt.want || bad != tt.bad {
				t.Errorf("got %v and %d reports, want %s and %d", got, bad, tt.want, tt.bad)
			}
		})
	}
}

func TestParseNetworks(t *testing.T) {
	for _, tt := range []struct{ name, value, want string }{
		{"a router's port", "02:00:00:00:00:01 10.0.0.1/24 fd00::1/64", "[10.0.0.1 fd00::1]"},
		{"a link-local one that was given", "02:00:00:00:00:01 fe80::1/64", "[fe80::1]"},
		{"the port of a switch", "02:00:00:00:00:01 10.0.0.1 fd00::1", "[]"},
		{"router", "router", "[]"},
		{"nonsense", "02:00:00:00:00:01 10.0.0/24 x/y", "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fmt.Sprint(parseNetworks([]string{tt.value})); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// A hostname is a name that a question may have, or it is none and reported.
func FuzzParseHostname(f *testing.F) {
	for _, s := range []string{"vm1", "VM1.ovn.org.", "a b", `a\.b`, "\xff\x00", "..", `\`, "", ".", strings.Repeat("a", 64), `"vm1"`, `"b\u00fcro"`, `""`, `"`, ` "a\b" `} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		bad := 0
		name := parseHostname(s, func(string, string, error) { bad++ })
		if none := unquote(s) == ""; none && (name != "" || bad != 0) || !none && (name == "") != (bad == 1) {
			t.Fatalf("%q is %q, reported %d times", s, name, bad)
		}
		if name == "" {
			return
		}
		b, err := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		var m dns.Msg
		if err := m.Unpack(b); err != nil || dns.CanonicalName(m.Question[0].Name) != name {
			t.Fatalf("%q is asked for as %v: %v", name, m.Question, err)
		}
	})
}

// FuzzParseDNSServers parses any constant. Each of its words is an address that a guest can ask, or is
// reported; a constant of the addresses alone has the same.
func FuzzParseDNSServers(f *testing.F) {
	for _, value := range []string{
		"9.9.9.9", "{9.9.9.9, fd00::254}", "{9.9.9.9 9.9.9.9", "{}", "}", "{{1.1.1.1}}", `"{9.9.9.9}"`, "fe80::1%eth0,::ffff:9.9.9.9", "255.255.255.255 ::1 0.0.0.0 ff02::1",
		"{" + strings.Repeat("10.0.0.1 ", maxDNSServers+1) + "}", "1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5,1.1.1.6,1.1.1.7,1.1.1.8,1.1.1.9,1.1.1.10,1.1.1.11,1.1.1.12,1.1.1.13,1.1.1.14,1.1.1.15,1.1.1.16,1.1.1.17,1.1.1.1",
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		var bad []string
		all := parseDNSServers(value, func(option, word string, err error) {
			if option != "dns_server" || err == nil {
				t.Errorf("%s %q: %v", option, word, err)
			}
			bad = append(bad, word)
		})
		if len(all) > maxDNSServers {
			t.Errorf("%d addresses", len(all))
		}
		var words []string
		for i, a := range all {
			if !a.IsValid() || a.Zone() != "" || a.Is4In6() || !a.IsGlobalUnicast() && !a.IsLinkLocalUnicast() || slices.Contains(all[:i], a) {
				t.Errorf("%s in %s", a, all)
			}
			words = append(words, a.String())
		}
		list, braces := strings.CutPrefix(strings.TrimSpace(value), "{")
		if inner, ends := strings.CutSuffix(list, "}"); braces && !ends {
			if len(all) != 0 || !slices.Equal(bad, []string{value}) {
				t.Errorf("%s, and %q is reported, though the end is missing", all, bad)
			}
			return
		} else if braces {
			list = inner
		}
		given := names.Words(list)
		for _, word := range given {
			if a, err := netip.ParseAddr(word); (err != nil || !slices.Contains(all, a)) != slices.Contains(bad, word) {
				t.Errorf("%q of %q: the addresses are %s, and %q is reported", word, value, all, bad)
			}
		}
		if len(all)+len(bad) > len(given) {
			t.Errorf("%s and %q of %q", all, bad, given)
		}
		again := parseDNSServers("{"+strings.Join(words, ", ")+"}", func(_, word string, err error) { t.Errorf("%q: %v", word, err) })
		if !slices.Equal(again, all) {
			t.Errorf("%s is read again as %s", all, again)
		}
	})
}
