// SPDX-License-Identifier: Apache-2.0

package addnhosts

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/miekg/dns"
)

// parsed returns what parse tells of a text: hosts, and skipped lines.
func parsed(t *testing.T, text string) (hosts, bad []string) {
	t.Helper()
	err := parse(strings.NewReader(text), lines{
		host: func(a netip.Addr, names []string) error {
			hosts = append(hosts, fmt.Sprintf("%s %s", a, strings.Join(names, " ")))
			return nil
		},
		bad: func(line int, text []byte, err error) { bad = append(bad, fmt.Sprintf("%d %s: %v", line, text, err)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return hosts, bad
}

func TestParse(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, tt := range []struct{ name, text, hosts, bad string }{
		{"nothing", "", "", ""},
		{"as the agent writes it", "10.0.0.91\thost-10-0-0-91.cloud.internal. host-10-0-0-91\n", "10.0.0.91 host-10-0-0-91.cloud.internal. host-10-0-0-91.", ""},
		{"IPv6", "fd00::91\thost-fd00--91.cloud.internal. host-fd00--91\n", "fd00::91 host-fd00--91.cloud.internal. host-fd00--91.", ""},
		{"no newline at the end", "10.0.0.1 a", "10.0.0.1 a.", ""},
		{"upper case", "10.0.0.1 VM1.Cloud.Internal. VM1\n", "10.0.0.1 vm1.cloud.internal. vm1.", ""},
		{"comments and empty lines", "# no\n\n \t\n10.0.0.1 a # b\n", "10.0.0.1 a.", ""},
		{"carriage returns", "10.0.0.1 a\r\n", "10.0.0.1 a.", ""},
		{"no address", "vm1 10.0.0.1\n10.0.0.2 b\n", "10.0.0.2 b.", `1 vm1: "vm1" is not an IP address`},
		{"an address with a zone", "fe80::1%eth0 a\n", "", `1 fe80::1%eth0: "fe80::1%eth0" has a zone`},
		{"no name", "10.0.0.1\n", "", "1 10.0.0.1: expected names after the address"},
		{"a bad name among others", "10.0.0.1 a..b a\n", "10.0.0.1 a.", "1 a..b: it is no domain name: dns: bad rdata"},
		{"nothing but bad names", "10.0.0.1 .\n", "", "1 .: it is empty"},
		{"too many names", "10.0.0.1" + strings.Repeat(" a", 17) + "\n10.0.0.2 b\n", "10.0.0.2 b.", "1 10.0.0.1: it has more than 16 names"},
		{"a long line", "10.0.0.1 a\n10.0.0.9 " + long + "\n10.0.0.2 b\n", "10.0.0.1 a.\n10.0.0.2 b.",
			"2 10.0.0.9 " + long[:71] + ": it is longer than 4096 bytes"},
		{"a long line at the end", long, "", "1 " + long[:80] + ": it is longer than 4096 bytes"},
		{"half a line", "10.0.0.1 a\n10.0.0.", "10.0.0.1 a.", `2 10.0.0.: "10.0.0." is not an IP address`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hosts, bad := parsed(t, tt.text)
			if got := strings.Join(hosts, "\n"); got != tt.hosts {
				t.Errorf("hosts %q, want %q", got, tt.hosts)
			}
			if got := strings.Join(bad, "\n"); got != tt.bad && (tt.bad == "" || !strings.HasPrefix(got, tt.bad)) {
				t.Errorf("bad %q, want %q", got, tt.bad)
			}
		})
	}
}

func TestParseError(t *testing.T) {
	want := errors.New("the disk is gone")
	l := lines{host: func(netip.Addr, []string) error { return nil }, bad: func(int, []byte, error) {}}
	if err := parse(iotest.ErrReader(want), l); !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}

// endless is a file that never ends.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

func TestParseIsBounded(t *testing.T) {
	line := "10.0.0.1 a #" + strings.Repeat("x", 4000) + "\n"
	hosts := 0
	var last error
	err := parse(&endless{text: line}, lines{
		host: func(netip.Addr, []string) error { hosts++; return nil },
		bad:  func(_ int, _ []byte, err error) { last = err },
	})
	if err != nil || !errors.Is(last, errLongFile) || hosts != maxFile/len(line) {
		t.Errorf("%v, %v after %d lines", err, last, hosts)
	}
}

// built returns the network of a text.
func built(t *testing.T, text string) *Network {
	t.Helper()
	b := newBuilder()
	if err := parse(strings.NewReader(text), lines{host: b.add, bad: func(int, []byte, error) {}}); err != nil {
		t.Fatal(err)
	}
	return b.done(time.Unix(1, 0))
}

func TestNetwork(t *testing.T) {
	const text = "10.0.0.11\tvm1.cloud.internal. vm1\n" +
		"fd00::11\tvm1.cloud.internal. vm1\n" +
		"10.0.0.12\tvm2.cloud.internal vm2\n" +
		"10.0.0.13\tvm3\n" +
		"10.0.0.14\ta.b.cloud.internal. a.b\n" +
		"10.0.0.15\tvm5.other.example. vm5.other.example.\n" +
		"10.0.0.16\t*.cloud.internal. *\n"
	n := built(t, text)
	if n.Domain != "cloud.internal." {
		t.Errorf("domain %q", n.Domain)
	}
	for _, tt := range []struct{ name, qname, want string }{
		{"with its domain", "vm1.cloud.internal.", "[10.0.0.11] [fd00::11] []"},
		{"bare", "vm1.", "[10.0.0.11] [fd00::11] []"},
		{"no dot at the end of the file's name", "vm2.cloud.internal.", "[10.0.0.12] [] []"},
		{"bare only, bare", "vm3.", "[10.0.0.13] [] []"},
		{"bare only, completed by the Corefile", "vm3.corefile.example.", "[10.0.0.13] [] []"},
		{"one that has a domain, by another", "vm1.corefile.example.", "none"},
		{"a name of two labels", "a.b.", "[10.0.0.14] [] []"},
		{"a name of two labels with its domain", "a.b.cloud.internal.", "[10.0.0.14] [] []"},
		{"its first label", "a.", "none"},
		{"a full name twice", "vm5.other.example.", "[10.0.0.15] [] []"},
		{"of a full name the first label", "vm5.", "none"},
		{"an asterisk is a name, and no wildcard", "x.cloud.internal.", "none"},
		{"PTR", "11.0.0.10.in-addr.arpa.", "[] [] [vm1.cloud.internal.]"},
		{"PTR of IPv6", "1.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.", "[] [] [vm1.cloud.internal.]"},
		{"PTR of a bare name", "13.0.0.10.in-addr.arpa.", "[] [] [vm3.corefile.example.]"},
		{"PTR of a full name", "15.0.0.10.in-addr.arpa.", "[] [] [vm5.other.example.]"},
		{"nobody's address", "99.0.0.10.in-addr.arpa.", "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := "none"
			if a, ok := n.Lookup(tt.qname, "corefile.example."); ok {
				got = fmt.Sprint(a.V4, a.V6, a.PTR)
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
	if !n.Empty("internal.", "") || n.Empty("nowhere.", "") {
		t.Error("the empty non-terminal internal.")
	}
	for text, want := range map[string]string{
		"10.0.0.1 a.y.\n10.0.0.2 b.x.\n":     "x.", // of two the first in the alphabet
		"10.0.0.1 a.b.cloud.internal. a.b\n": "cloud.internal.",
		"10.0.0.1 a\n":                       "",
	} {
		if d := built(t, text).Domain; d != want {
			t.Errorf("%q has the domain %q, want %q", text, d, want)
		}
	}
}

// A name of very many addresses takes no time that grows with their square.
func TestAddressesAreBounded(t *testing.T) {
	b := newBuilder()
	var refused int
	for i := range 1 << 16 {
		if err := b.add(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), []string{fmt.Sprintf("vm.d%d.", i), "vm."}); err != nil {
			refused++
		}
	}
	if refused != 1<<16-maxAddresses {
		t.Errorf("%d refused", refused)
	}
	if a, _ := b.done(time.Now()).Lookup("vm.", ""); len(a.V4) != maxAddresses {
		t.Errorf("%d addresses", len(a.V4))
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("10.0.0.91\thost-10-0-0-91.cloud.internal. host-10-0-0-91\nfd00::1 a\n"))
	f.Add([]byte("10.0.0.1 *.a * a\\.b \\ a..b # c\n\x00\n1.2.3.4"))
	f.Fuzz(func(t *testing.T, text []byte) {
		b := newBuilder()
		type pair struct {
			a netip.Addr
			n string
		}
		var all []pair
		skipped := 0
		err := parse(bytes.NewReader(text), lines{
			host: func(a netip.Addr, hostnames []string) error {
				for _, n := range hostnames {
					if _, ok := dns.IsDomainName(n); !ok || dns.CanonicalName(n) != n || n == "." {
						t.Fatalf("%q is not canonical", n)
					}
					all = append(all, pair{a, n})
				}
				return b.add(a, hostnames)
			},
			bad: func(line int, _ []byte, _ error) {
				if skipped++; line < 1 {
					t.Fatal("line 0")
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		n := b.done(time.Time{})
		// Every name that was read has its address.
		for _, p := range all {
			a, ok := n.Lookup(p.n, "")
			if !ok || !slices.Contains(append(slices.Clone(a.V4), a.V6...), p.a) {
				t.Errorf("%s %s: %v", p.n, p.a, a)
			}
		}
	})
}
