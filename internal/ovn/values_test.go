// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// complaints collects what is reported.
type complaints []string

func (c *complaints) report(where, value string, err error) {
	*c = append(*c, value)
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
			if got := show(e.answer("", false)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if got := strings.Join(bad, " "); got != tt.bad {
				t.Errorf("bad: got %s, want %s", got, tt.bad)
			}
		})
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
	return strings.Join(append(all, a.PTR...), " ")
}

func FuzzParseRecord(f *testing.F) {
	f.Add("a.", "10.0.0.4, ::1 x")
	f.Add("1.in-addr.arpa.", "vm1 ..")
	f.Fuzz(func(t *testing.T, name, value string) {
		var bad complaints
		e := parseRecord(name, value, bad.report)
		a := e.answer(FromDNS, false)
		if n := len(a.V4) + len(a.V6) + len(a.PTR) + len(bad); n > len(fields(value)) {
			t.Fatalf("%d results of %d words", n, len(fields(value)))
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
			if text := show(newEntry(got.fixed, nil).answer("", false)); text != tt.want || got.dynamic != tt.dynamic {
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
		if !slices.IsSortedFunc(got.fixed, netip.Addr.Compare) {
			t.Fatalf("not sorted: %v", got.fixed)
		}
	})
}

func TestParseDomainName(t *testing.T) {
	tests := []struct{ in, want string }{
		{`"example.org"`, "example.org."},
		{"Example.ORG.", "example.org."},
		{` "a" `, "a."},
		{"", ""}, {`""`, ""}, {".", ""}, {"a..b", ""},
	}
	for _, tt := range tests {
		if got := parseDomainName(tt.in, func(string, string, error) {}); got != tt.want {
			t.Errorf("parseDomainName(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func FuzzParseDomainName(f *testing.F) {
	f.Add(`"example.org"`)
	f.Fuzz(func(t *testing.T, s string) {
		d := parseDomainName(s, func(string, string, error) {})
		if again := parseDomainName(d, func(string, string, error) {}); d != "" && isCanonical(d) && again != d {
			t.Fatalf("%q became %q and then %q", s, d, again)
		}
	})
}

func TestReverseEdit(t *testing.T) {
	addr := netip.MustParseAddr
	var r reverse
	r = r.edit(nil, []pair{{addr("10.0.0.2"), "b."}, {addr("10.0.0.1"), "a."}, {addr("10.0.0.1"), "a.x."}, {addr("::1"), "a."}})
	r = r.edit(nil, []pair{{addr("10.0.0.1"), "0.x."}, {addr("10.0.0.2"), "c."}, {addr("10.0.0.2"), "b."}})
	tests := []struct{ addr, want string }{
		{"10.0.0.1", "[0.x. a.x.]"}, // no single label beside longer names
		{"10.0.0.2", "[b. c.]"},
		{"::1", "[a.]"},
		{"10.0.0.3", "[]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(r.find(addr(tt.addr))); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.addr, got, tt.want)
		}
	}
	r = r.edit(map[pair]struct{}{{addr("10.0.0.1"), "0.x."}: {}, {addr("10.0.0.1"), "a.x."}: {}, {addr("::1"), "a."}: {}},
		[]pair{{addr("::1"), "a."}})
	for _, tt := range []struct{ addr, want string }{{"10.0.0.1", "[a.]"}, {"::1", "[a.]"}} {
		if got := fmt.Sprint(r.find(addr(tt.addr))); got != tt.want {
			t.Errorf("after removal, %s: got %s, want %s", tt.addr, got, tt.want)
		}
	}
}
