// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func TestCanonical(t *testing.T) {
	long := strings.Repeat("a", 63)
	tests := []struct{ name, in, want string }{
		{"plain", "vm1.ovn.org", "vm1.ovn.org."},
		{"qualified", "vm1.ovn.org.", "vm1.ovn.org."},
		{"upper case", "VM1.Ovn.ORG", "vm1.ovn.org."},
		{"single label", "vm1", "vm1."},
		{"service", "_dns._udp.x", "_dns._udp.x."},
		{"space", "my vm", `my\ vm.`},
		{"byte above 127", "b\xfccher", `b\252cher.`},
		{"utf-8", "bücher", `b\195\188cher.`},
		{"zero byte", "a\x00b", `a\000b.`},
		{"escaped letter", `\065bc`, "abc."},
		{"escaped dot", `a\.b.c`, `a\.b.c.`},
		{"longest label", long, long + "."},
		{"longest name", long + "." + long + "." + long + "." + long[:61], long + "." + long + "." + long + "." + long[:61] + "."},
		{"empty", "", ""},
		{"root", ".", ""},
		{"empty label", "a..b", ""},
		{"leading dot", ".a", ""},
		{"trailing dots", "a..", ""},
		{"label too long", long + "a", ""},
		{"name too long", long + "." + long + "." + long + "." + long[:62], ""},
		{"half an escape", `a\`, ""},
		{"escaped dot at the end", `a\.`, `a\..`},
		{"backslash at the end", `a\\`, `a\\.`},
		{"half an escape after a label", `a.b\`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := canonical(tt.in)
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("canonical(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
			}
		})
	}
}

// FuzzCanonical: a key's name is that which a question for it has.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"vm1", "VM1.ovn.org.", "a b", `a\.b`, "\xff\x00", "..", `\`, "*.x", "@", `a"b`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := canonical(s)
		if err != nil {
			return
		}
		var wire [255]byte
		n, err := dns.PackDomainName(name, wire[:], 0, nil, false)
		if err != nil {
			t.Fatalf("%q became %q, which cannot be packed: %v", s, name, err)
		}
		asked, _, err := dns.UnpackDomainName(wire[:n], 0)
		if err != nil || dns.CanonicalName(asked) != name {
			t.Fatalf("%q became %q, but a question has %q, %v", s, name, asked, err)
		}
		if again, err := canonical(name); again != name || err != nil {
			t.Fatalf("%q became %q and then %q, %v", s, name, again, err)
		}
	})
}

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

func TestJoin(t *testing.T) {
	long := strings.Repeat("a", 60) + "."
	tests := []struct {
		name, host, domain, want string
	}{
		{"bare", "vm1.", "ovn.org.", "vm1.ovn.org."},
		{"there already", "vm1.ovn.org.", "ovn.org.", "vm1.ovn.org."},
		{"ends alike", "vm1ovn.org.", "ovn.org.", "vm1ovn.org.ovn.org."},
		{"too long", long + long + long, "b." + long + long, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := join(tt.host, tt.domain)
			if ok != (tt.want != "") || ok && got != tt.want {
				t.Errorf("got %q, %v; want %q", got, ok, tt.want)
			}
		})
	}
}
