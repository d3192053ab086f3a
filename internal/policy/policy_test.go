// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/testkit/golden"
)

func parseAll(t testing.TB, words string) *Policy {
	t.Helper()
	var entries []Entry
	for word := range strings.FieldsSeq(words) {
		e, err := Parse(word)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return New(entries)
}

func decision(p *Policy, qname string) string {
	switch v, entries := p.Name(dns.CanonicalName(qname), nil); v {
	case Allowed:
		words := make([]string, len(entries))
		for i, e := range entries {
			words[i] = e.String()
		}
		return strings.Join(words, " ")
	case Above:
		return "above"
	}
	return "denied"
}

// TestNPEP133 has the examples and the "Expected Behavior" of NPEP-133 about names. Not here:
//
//   - 1 and 3 (access to DNS servers): the guest asks puntdns; the operator's ACLs allow it.
//   - 2 (policies do not filter DNS): `strict on` differs on purpose, so that names carry no data out. `observe on` filters
//     nothing.
//   - 4 (lifetimes): an address outlasts its TTL, see ofpunt/flows TestScripts.
//   - 5 (100 addresses for each name): the lowest max_addresses is 100.
//   - 6 (no PTR records required): entries for names ignore PTR records.
//   - 7 (endpoints of a cluster) does not apply: load balancers come after the ACLs.
//   - 8 (CNAME chains): plugin/egress follows the chain of one answer, see its TestOpens.
func TestNPEP133(t *testing.T) {
	for _, tt := range []struct{ entries, name, want string }{
		{"kubernetes.io", "kubernetes.io.", "kubernetes.io."},
		{"kubernetes.io", "www.kubernetes.io.", "denied"},
		{"kubernetes.io", "blog.kubernetes.io.", "denied"},
		{"kubernetes.io", "my-kubernetes.io.", "denied"},
		{"kubernetes.io", "wikipedia.org.", "denied"},
		{"blog.kubernetes.io", "blog.kubernetes.io.", "blog.kubernetes.io."},
		{"blog.kubernetes.io", "www.kubernetes.io.", "denied"},
		{"blog.kubernetes.io", "kubernetes.io.", "above"}, // only names below are allowed
		{"*.kubernetes.io", "www.kubernetes.io.", "*.kubernetes.io."},
		{"*.kubernetes.io", "blog.kubernetes.io.", "*.kubernetes.io."},
		{"*.kubernetes.io", "latest.blog.kubernetes.io.", "*.kubernetes.io."},
		{"*.kubernetes.io", "kubernetes.io.", "above"},
		{"*.kubernetes.io", "wikipedia.org.", "denied"},
		// 6: a reverse name is like any name.
		{"my-hostname.example 1.2.3.4", "4.3.2.1.in-addr.arpa.", "denied"},
		// 8: an allowed alias does not allow its target, nor the reverse.
		{"www.kubernetes.io", "kubernetes.io.", "above"},
		{"kubernetes.io", "www.kubernetes.io.", "denied"},
	} {
		if got := decision(parseAll(t, tt.entries), tt.name); got != tt.want {
			t.Errorf("%s: %s: %s, want %s", tt.entries, tt.name, got, tt.want)
		}
	}
}

func TestName(t *testing.T) {
	long := strings.Repeat(strings.Repeat("a", 63)+".", 3)
	deep := strings.Repeat("a.", 122)
	for _, tt := range []struct{ what, entries, name, want string }{
		{"upper case in the question", "pypi.org", "PyPI.oRG.", "pypi.org."},
		{"upper case in the entry", "PyPI.ORG *.PyPI.ORG", "files.pypi.org.", "*.pypi.org."},
		{"a trailing dot in the entry", "pypi.org.", "pypi.org.", "pypi.org."},
		{"no trailing dot in the question", "pypi.org", "pypi.org", "pypi.org."},
		{"a name that ends in the same letters", "*.pypi.org", "notpypi.org.", "denied"},
		{"below that", "*.pypi.org", "a.notpypi.org.", "denied"},
		{"an entry as a part of the name", "pypi.org", "pypi.org.evil.example.", "denied"},
		{"below a wildcard as a part of the name", "*.pypi.org", "a.pypi.org.evil.example.", "denied"},
		{"above an entry", "pypi.org", "org.", "above"},
		{"the root", "pypi.org", ".", "above"},
		{"the root of no name", "192.0.2.1", ".", "denied"},
		{"no entry", "", "pypi.org.", "denied"},
		{"an escaped dot", "*.pypi.org", `a\.pypi.org.`, "denied"},
		{"an escaped dot of an exact entry", "a.pypi.org", `a\.pypi.org.`, "denied"},
		{"an escaped dot as decimals", "*.pypi.org", `a\046pypi.org.`, "denied"},
		{"an escaped dot below the wildcard", "*.pypi.org", `a\.b.pypi.org.`, "*.pypi.org."},
		{"an escaped backslash before the dot", "*.pypi.org", `a\\.pypi.org.`, "*.pypi.org."},
		{"an escaped backslash and an escaped dot", "*.pypi.org", `a\\\.pypi.org.`, "denied"},
		{"decimals before the dot", "*.pypi.org", `\000\255.pypi.org.`, "*.pypi.org."},
		{"an escaped dot at the end", "*.pypi.org", `a.pypi.org\.`, "denied"},
		{"an asterisk in the question", "*.pypi.org", "*.pypi.org.", "*.pypi.org."},
		{"an asterisk in the question of an exact entry", "pypi.org", "*.org.", "denied"},
		{"UTF-8", "*.example", `b\195\188cher.example.`, "*.example."},
		{"UTF-8 for an A-label", "xn--bcher-kva.example", `b\195\188cher.example.`, "denied"},
		{"an A-label", "xn--bcher-kva.example", "XN--bcher-KVA.example.", "xn--bcher-kva.example."},
		{"an exact entry and a wildcard", "*.org:80 pypi.org:443/tcp", "pypi.org.", "*.org.:80 pypi.org.:443/tcp"},
		{"two wildcards", "*.org *.pypi.org", "a.pypi.org.", "*.org. *.pypi.org."},
		{"two wildcards in the other order", "*.pypi.org *.org", "a.pypi.org.", "*.org. *.pypi.org."},
		{"the apex of the longer wildcard", "*.pypi.org *.org", "pypi.org.", "*.org."},
		{"below an exact entry below a wildcard", "*.org pypi.org", "a.pypi.org.", "*.org."},
		{"two entries of a name", "pypi.org:80 pypi.org:443", "pypi.org.", "pypi.org.:80 pypi.org.:443"},
		{"an underscore", "_dns.resolver.arpa", "_dns.resolver.arpa.", "_dns.resolver.arpa."},
		{"255 octets", "*.example.org", long + strings.Repeat("b", 49) + ".example.org.", "*.example.org."},
		{"255 octets that are escaped", "*.example.org", strings.Repeat(`\255`, 63) + "." + strings.Repeat(`\255`, 63) + "." + strings.Repeat(`\255`, 63) + "." + strings.Repeat(`\255`, 49) + ".example.org.", "*.example.org."},
		{"many labels", "*.example.org", deep + "example.org.", "*.example.org."},
		// Package dns unpacks no such names.
		{"more labels than a name has", "*.example.org", strings.Repeat("a.", 126) + "example.org.", "*.example.org."},
		{"a text that is no name", "*.example.org", strings.Repeat("a", 2000) + ".example.org.", "*.example.org."},
		{"nothing, which is the root", "*.example.org", "", "above"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			if got := decision(parseAll(t, tt.entries), tt.name); got != tt.want {
				t.Errorf("%s: %s: %s, want %s", tt.entries, tt.name, got, tt.want)
			}
		})
	}
}

func TestAddress(t *testing.T) {
	p := parseAll(t, "192.0.2.0/24:443 192.0.2.128/25 198.51.100.7 2001:db8::/32 [2001:db8:1::1]:53/udp pypi.org")
	for address, want := range map[string]string{
		"192.0.2.1":          "192.0.2.0/24:443",
		"192.0.2.129":        "192.0.2.128/25",
		"192.0.3.1":          "",
		"198.51.100.7":       "198.51.100.7/32",
		"198.51.100.8":       "",
		"2001:db8:2::":       "2001:db8::/32",
		"2001:db8:1::1":      "[2001:db8:1::1/128]:53/udp",
		"2001:db9::":         "",
		"::ffff:192.0.2.129": "192.0.2.128/25",
	} {
		got := ""
		if e := p.Address(netip.MustParseAddr(address)); e != nil {
			got = e.String()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	if e := p.Address(netip.Addr{}); e != nil {
		t.Errorf("no address: %s", e)
	}
}

func TestParse(t *testing.T) {
	for word, want := range map[string]Entry{
		"pypi.org":               {Name: "pypi.org."},
		"PyPI.org.":              {Name: "pypi.org."},
		"pypi.org:443":           {Name: "pypi.org.", Port: 443},
		"pypi.org:443/tcp":       {Name: "pypi.org.", Port: 443, Protocol: TCP},
		"*.pypi.org:65535/udp":   {Name: "pypi.org.", Wildcard: true, Port: 65535, Protocol: UDP},
		"db":                     {Name: "db."},
		"db:5432":                {Name: "db.", Port: 5432},
		"*.in-addr.arpa":         {Name: "in-addr.arpa.", Wildcard: true},
		"192.0.2.0/24":           {Prefix: netip.MustParsePrefix("192.0.2.0/24")},
		"192.0.2.7":              {Prefix: netip.MustParsePrefix("192.0.2.7/32")},
		"192.0.2.0/24:443/sctp":  {Prefix: netip.MustParsePrefix("192.0.2.0/24"), Port: 443, Protocol: SCTP},
		"0.0.0.0/0":              {Prefix: netip.MustParsePrefix("0.0.0.0/0")},
		"2001:db8::/32":          {Prefix: netip.MustParsePrefix("2001:db8::/32")},
		"2001:DB8::1":            {Prefix: netip.MustParsePrefix("2001:db8::1/128")},
		"[2001:db8::/32]":        {Prefix: netip.MustParsePrefix("2001:db8::/32")},
		"[2001:db8::1]:443/tcp":  {Prefix: netip.MustParsePrefix("2001:db8::1/128"), Port: 443, Protocol: TCP},
		"[2001:db8::/32]:53/udp": {Prefix: netip.MustParsePrefix("2001:db8::/32"), Port: 53, Protocol: UDP},
	} {
		got, err := Parse(word)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", word, got, err, want)
		}
		if again, err := Parse(got.String()); err != nil || again != got {
			t.Errorf("%q prints as %s, which is %+v, %v", word, got, again, err)
		}
	}
}

func TestParseText(t *testing.T) {
	for _, tt := range []struct{ what, text, want, bad string }{
		{"spaces and commas", " pypi.org,*.pypi.org:443/tcp ,\n192.0.2.0/24,", "pypi.org. *.pypi.org.:443/tcp 192.0.2.0/24", ""},
		{"some can't be parsed", "a..b pypi.org 10.0.0.1/8", "pypi.org.", "a..b 10.0.0.1/8"},
		{"none can be parsed", "allow=pypi.org;", "", "allow=pypi.org;"},
		{"no entry", " , ", "", ""},
		{"too long", strings.Repeat("a", maxWord+1) + " b.test", "b.test.", strings.Repeat("a", maxWord+1)},
		{"the longest", "*." + strings.Repeat("a.", maxName/2-2) + "b:65535/sctp", "*." + strings.Repeat("a.", maxName/2-2) + "b.:65535/sctp", ""},
		{"too many", strings.Repeat("a.test,", maxEntries) + "b.test,c.test", strings.Repeat("a.test. ", maxEntries-1) + "a.test.", "b.test"},
	} {
		var bad, got []string
		for _, e := range ParseText(tt.text, func(word string, err error) {
			if err == nil {
				t.Errorf("%s: no error for %q", tt.what, word)
			}
			bad = append(bad, word)
		}).Entries() {
			got = append(got, e.String())
		}
		if got, bad := strings.Join(got, " "), strings.Join(bad, " "); got != tt.want || bad != tt.bad {
			t.Errorf("%s: %q, bad %q", tt.what, got, bad)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("a", 63)
	refusals := ""
	for _, word := range []string{
		"", ".", "*", "*.", "*.*.org", "a.*.org", "*a.org", "**.org", "a..org", ".org", `a\.pypi.org`, "a b.org", "bücher.example", "a,b.org", "https://pypi.org", "https://pypi.org/simple", "http://192.0.2.1:8080/",
		long + "a.org", long + "." + long + "." + long + "." + strings.Repeat("b", 50) + ".example.org",
		"pypi.org:", "pypi.org:0", "pypi.org:0443", "pypi.org:+443", "pypi.org:65536", "pypi.org:443/", "pypi.org:443/TCP", "pypi.org:443/icmp", "pypi.org:https", "pypi.org:80-443",
		"192.0.2.1/24", "192.0.2.0/33", "192.0.2", "192.0.2.256", "*.192.0.2.1", "2001:db8::1/32", "2001:db8::/129", "fe80::1%eth0", "::ffff:192.0.2.1", "::ffff:192.0.2.0/120",
		"[2001:db8::1", "[pypi.org]:443", "[2001:db8::1]443", "[2001:db8::1]:x", "[192.0.2.1]:443", "pypi.org/24", "0x7f000001", "127.0X1:80",
	} {
		e, err := Parse(word)
		if err == nil || e != (Entry{}) {
			t.Errorf("%q is %+v, %v", word, e, err)
		}
		refusals += fmt.Sprintln(err)
	}
	golden.Check(t, refusals)
}

func TestWarning(t *testing.T) {
	for word, want := range map[string]bool{
		"*.com": true, "*.co.uk": true, "*.github.io": true, "*.ck": true, "*.s3.amazonaws.com:443": true, "*.xn--p1ai": true,
		"*.pypi.org": false, "com": false, "github.io": false, "*.puntdns.github.io": false, "*.internal": false, "*.corp.internal": false, "*.www.ck": false,
		"192.0.2.0/24": false, "*.in-addr.arpa": true, "0.0.0.0/0": true, "[::/0]:443": true, "0.0.0.0/1": false,
	} {
		e, err := Parse(word)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Warning(); (got != "") != want {
			t.Errorf("%s: %q, want a warning: %v", word, got, want)
		}
	}
}

// An entry prints as a word of the same entry; an entry for a name allows the name or names below.
func FuzzParse(f *testing.F) {
	for _, word := range []string{"pypi.org", "*.pypi.org:443/tcp", "192.0.2.0/24", "[2001:db8::/32]:53/udp", `a\.b`, "a..b", "*", "2001:db8::1", "x:1:2", "1.2.3", "-.-"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		e, err := Parse(word)
		if err != nil {
			return
		}
		if again, err := Parse(e.String()); err != nil || again != e {
			t.Fatalf("%q is %+v and prints as %q, which is %+v, %v", word, e, e, again, err)
		}
		_ = e.Warning()
		p := New([]Entry{e})
		if e.Name == "" {
			if got := p.Address(e.Prefix.Addr()); got == nil || *got != e {
				t.Fatalf("%q does not allow %s", word, e.Prefix.Addr())
			}
			return
		}
		if _, ok := dns.IsDomainName(e.Name); !ok {
			t.Fatalf("%q has the name %q", word, e.Name)
		}
		apex, below := decision(p, e.Name), decision(p, "x."+e.Name)
		if want := e.String(); e.Wildcard && (apex != "above" || below != want) || !e.Wildcard && (apex != want || below != "denied") {
			t.Fatalf("%q: %s is %s, x.%[2]s is %[4]s", word, e.Name, apex, below)
		}
	})
}

// FuzzName compares with a comparison of labels.
func FuzzName(f *testing.F) {
	p := parseAll(f, "*.pypi.org a.example *.b.example b.example x.y.z.example")
	for _, name := range []string{"a.pypi.org.", "pypi.org.", `a\.pypi.org.`, `\\.pypi.org.`, "b.EXAMPLE.", ".", "y.z.example."} {
		wire := make([]byte, 255)
		n, err := dns.PackDomainName(name, wire, 0, nil, false)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire[:n])
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		name, end, err := dns.UnpackDomainName(wire, 0)
		if err != nil || slices.ContainsFunc(wire[:end], func(b byte) bool { return b >= 0xc0 }) {
			return // compressed, or with octets that look compressed
		}
		labels := []string{}
		for i := 0; wire[i] != 0; i += int(wire[i]) + 1 {
			labels = append(labels, strings.ToLower(string(wire[i+1:i+1+int(wire[i])])))
		}
		want := "denied"
		for _, e := range p.Entries() {
			of := strings.Split(strings.TrimSuffix(e.Name, "."), ".")
			switch longer := len(labels) - len(of); {
			case !e.Wildcard && slices.Equal(labels, of), e.Wildcard && longer > 0 && slices.Equal(labels[longer:], of):
				want = "allowed"
			case want == "denied" && longer <= 0 && slices.Equal(labels, of[-longer:]):
				want = "above"
			}
		}
		got := decision(p, name)
		if got != "denied" && got != "above" {
			got = "allowed"
		}
		if got != want {
			t.Fatalf("%q: %s, want %s", name, got, want)
		}
	})
}

func BenchmarkName(b *testing.B) {
	var words []string
	for i := range 500 {
		words = append(words, fmt.Sprintf("host%d.example.org:443/tcp *.zone%d.example.net", i, i))
	}
	p := parseAll(b, strings.Join(words, " "))
	for _, name := range []string{"host499.example.org.", "a.b.zone499.example.net.", "www.example.com.", "www.example.org.", strings.Repeat("a.", 122) + "example.com."} {
		b.Run(name[:min(len(name), 24)], func(b *testing.B) {
			var some [8]*Entry
			b.ReportAllocs()
			for b.Loop() {
				p.Name(name, some[:0])
			}
		})
	}
}

func TestAllocations(t *testing.T) {
	p := parseAll(t, "pypi.org *.example.org 192.0.2.0/24 2001:db8::/32")
	address := netip.MustParseAddr("2001:db8::1")
	some := make([]*Entry, 8)
	if n := testing.AllocsPerRun(100, func() {
		for _, name := range []string{"pypi.org.", "a.example.org.", "other.test."} {
			p.Name(name, some[:0])
		}
		p.Address(address)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
