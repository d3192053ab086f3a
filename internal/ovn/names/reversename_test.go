// SPDX-License-Identifier: Apache-2.0

package names

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func TestParseReverse(t *testing.T) {
	const nibbles = "4.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.f.e.a"
	tests := []struct{ name, in, want string }{
		{"v4", "4.0.0.10.in-addr.arpa.", "10.0.0.4"},
		{"v4 broadcast", "255.255.255.255.in-addr.arpa.", "255.255.255.255"},
		{"v4 too large", "256.0.0.10.in-addr.arpa.", ""},
		{"v4 leading zero", "04.0.0.10.in-addr.arpa.", ""},
		{"v4 net", "0.0.10.in-addr.arpa.", ""},
		{"v4 too many", "1.4.0.0.10.in-addr.arpa.", ""},
		{"v4 empty label", "4..0.10.in-addr.arpa.", ""},
		{"v4 word", "a.0.0.10.in-addr.arpa.", ""},
		{"v4 zone", "in-addr.arpa.", ""},
		{"v6", nibbles + ".ip6.arpa.", "aef0::4"},
		{"v6 upper case", strings.ToUpper(nibbles) + ".ip6.arpa.", ""},
		{"v6 net", nibbles[2:] + ".ip6.arpa.", ""},
		{"v6 long labels", strings.Replace(nibbles, "4.0", "440", 1) + ".ip6.arpa.", ""},
		{"other", "vm1.ovn.org.", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parseReverse(tt.in)
			if ok != (tt.want != "") || ok && got != netip.MustParseAddr(tt.want) {
				t.Errorf("parseReverse(%q) = %v, %v; want %q", tt.in, got, ok, tt.want)
			}
		})
	}
}

// FuzzParseReverse: what is read is what miekg/dns makes of the address.
func FuzzParseReverse(f *testing.F) {
	for _, s := range []string{"10.0.0.4", "::", "aef0::4", "::ffff:10.0.0.1"} {
		name, _ := dns.ReverseAddr(s)
		f.Add(name)
	}
	f.Add("4..0.10.in-addr.arpa.")
	f.Fuzz(func(t *testing.T, name string) {
		addr, ok := parseReverse(name)
		if !ok {
			return
		}
		// ReverseAddr takes a mapped address for IPv4, which it is not here.
		if back, err := dns.ReverseAddr(addr.String()); !addr.Is4In6() && (err != nil || back != name) {
			t.Fatalf("%q became %s, whose name is %q, %v", name, addr, back, err)
		}
	})
}

func TestParseReversePrefix(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"v4 address", "4.0.0.10.in-addr.arpa.", "10.0.0.4/32"},
		{"v4 net", "2.1.10.in-addr.arpa.", "10.1.2.0/24"},
		{"v4 top", "in-addr.arpa.", "0.0.0.0/0"},
		{"v4 empty label", "1..10.in-addr.arpa.", ""},
		{"v4 word", "x.10.in-addr.arpa.", ""},
		{"v4 five", "1.2.3.4.5.in-addr.arpa.", ""},
		{"v6 net", "8.b.d.0.1.0.0.2.ip6.arpa.", "2001:db8::/32"},
		{"v6 odd", "d.f.1.ip6.arpa.", "1fd0::/12"},
		{"v6 top", "ip6.arpa.", "::/0"},
		{"v6 long label", "df.ip6.arpa.", ""},
		{"arpa", "arpa.", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, ok := parseReversePrefix(tt.in)
			if ok != (tt.want != "") || ok && p.String() != tt.want {
				t.Errorf("got %v, %v; want %q", p, ok, tt.want)
			}
		})
	}
}

// A prefix has the name that it was read from, but for what is no name of one.
func FuzzParseReversePrefix(f *testing.F) {
	for _, s := range []string{"4.0.0.10.in-addr.arpa.", "2.1.10.in-addr.arpa.", "in-addr.arpa.", "1..10.in-addr.arpa.", "256.10.in-addr.arpa.", "01.10.in-addr.arpa.", "8.b.d.0.1.0.0.2.ip6.arpa.", "ip6.arpa.", "df.ip6.arpa."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, ok := parseReversePrefix(s)
		addr, single := parseReverse(s)
		if single != (ok && p.IsSingleIP()) || single && addr != p.Addr() {
			t.Fatalf("%q is %v %v and %v %v", s, p, ok, addr, single)
		}
		if ok && reverseNameOf(p) != s {
			t.Fatalf("%q is %v, whose name is %q", s, p, reverseNameOf(p))
		}
	})
}

// reverseNameOf is parseReversePrefix the other way.
func reverseNameOf(p netip.Prefix) string {
	labels := p.Bits() / 8
	if p.Addr().Is6() {
		labels = p.Bits() / 4
	}
	if !p.IsValid() || p != p.Masked() {
		return "of no prefix"
	}
	if p.Bits() == 0 {
		return map[bool]string{true: reverse4, false: reverse6}[p.Addr().Is4()][1:]
	}
	whole, err := dns.ReverseAddr(p.Addr().String())
	if err != nil {
		return err.Error()
	}
	parts := strings.Split(whole, ".")
	all := 4
	if p.Addr().Is6() {
		all = 32
	}
	return strings.Join(parts[all-labels:], ".")
}
