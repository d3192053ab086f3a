// SPDX-License-Identifier: Apache-2.0

package names

import (
	"cmp"
	"slices"
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
		{"space at the end", "db.internal ", ""},
		{"space at the begin", " db.internal", ""},
		{"half an escape", `a\`, ""},
		{"escaped dot at the end", `a\.`, `a\..`},
		{"backslash at the end", `a\\`, `a\\.`},
		{"half an escape after a label", `a.b\`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Canonical(tt.in)
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("Canonical(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
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
		name, err := Canonical(s)
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
		if again, err := Canonical(name); again != name || err != nil {
			t.Fatalf("%q became %q and then %q, %v", s, name, again, err)
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

func TestUnder(t *testing.T) {
	tests := []struct {
		name, domain string
		want         bool
	}{
		{"a.red.example.", "red.example.", true},
		{"red.example.", "red.example.", true},
		{"example.", "red.example.", false},
		{"infrared.example.", "red.example.", false},
		{`a\.red.example.`, "red.example.", false},  // the dot is in the label
		{`a\\.red.example.`, "red.example.", true},  // the backslash is
		{`\\\.red.example.`, "red.example.", false}, // both are
		{"a.", "", false},
		{"", "a.", false},
	}
	for _, tt := range tests {
		if got := Under(tt.name, tt.domain); got != tt.want {
			t.Errorf("Under(%q, %q) = %v", tt.name, tt.domain, got)
		}
	}
	under := false
	if n := testing.AllocsPerRun(10, func() { under = Under("a.red.example.", "red.example.") }); n > 0 || !under {
		t.Errorf("%v allocations, %v", n, under)
	}
}

func TestCompareNames(t *testing.T) {
	// The example of RFC 4034, section 6.1, but for escapes, and dots and backslashes in labels.
	sorted := []string{
		".", `a\.example.`, `b.a\.example.`,
		"example.", "a.example.", "yljkjljk.a.example.", "z.a.example.", "zabc.a.example.", "z.example.", "*.z.example.", `\001.z.example.`, `\200.z.example.`,
		`x\\.`, `example.x\\.`, `x\\\.example.`, "xexample.",
	}
	for i, a := range sorted {
		for k, b := range sorted {
			if got, want := compareNames(a, b), cmp.Compare(i, k); got != want {
				t.Errorf("%q and %q: %d, want %d", a, b, got, want)
			}
		}
	}
}

// FuzzCompareNames compares with labels that are split.
func FuzzCompareNames(f *testing.F) {
	f.Add("a.example.", "z.example.")
	f.Add(`x\.y.`, `x.y.`)
	f.Add(`x\\.y.`, `x\.y.`)
	f.Add("m1.x.", "vm1.x.")
	f.Fuzz(func(t *testing.T, a, b string) {
		var labels [2][]string
		for i, name := range []string{a, b} {
			name, err := Canonical(name)
			if err != nil {
				t.Skip()
			}
			labels[i] = dns.SplitDomainName(name)
			slices.Reverse(labels[i])
			*[]*string{&a, &b}[i] = name
		}
		if got, want := compareNames(a, b), slices.Compare(labels[0], labels[1]); got != want {
			t.Fatalf("%q and %q: %d, want %d", a, b, got, want)
		}
	})
}
