// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/testkit/golden"
	"github.com/puntdns/puntdns/plugin/rpz/rules"
)

// head begins the file of a zone.
const head = "$TTL 60\n@ SOA ns.rpz. hostmaster.rpz. 7 3600 600 86400 60\n@ NS ns.rpz.\n"

func read(t testing.TB, text string) *rules.Rules {
	t.Helper()
	r, err := rules.Read(strings.NewReader(head+text), "rpz.", "rpz.zone", rules.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rulesOf returns the rules of a zone with these records behind its SOA record.
func rulesOf(t testing.TB, records iter.Seq[dns.RR]) *rules.Rules {
	t.Helper()
	b, err := rules.NewBuilder("rpz.", rules.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	soa, err := dns.NewRR("rpz. 60 SOA ns.rpz. hostmaster.rpz. 7 3600 600 86400 60")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Add(soa); err != nil {
		t.Fatal(err)
	}
	for rr := range records {
		if err := b.Add(rr); err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.Rules()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// name returns the rule for a name and its effect: "RULE ACTION", or local records.
func name(t testing.TB, r *rules.Rules, s string) string {
	t.Helper()
	var n rules.Name
	if !n.Set(s) {
		t.Fatalf("%q is no name", s)
	}
	p, wildcard, by := r.Name(&n)
	if p == 0 {
		return "-"
	}
	return n.Trigger(wildcard, by) + " " + policy(r, p, s)
}

func policy(r *rules.Rules, p rules.Policy, owner string) string {
	words := []string{p.Action().String()}
	if p.Action() == rules.Local {
		for _, rr := range r.Records(p, owner, 30) {
			words = append(words, strings.ReplaceAll(rr.String(), "\t", " "))
		}
	}
	return strings.Join(words, " ")
}

func TestName(t *testing.T) {
	r := read(t, `
bad.example       CNAME .
*.bad.example     CNAME *.
ok.bad.example    CNAME rpz-passthru.
UPPER.Example     CNAME RPZ-Drop.
tcp.example       CNAME rpz-tcp-only.
deep.a.b.example  CNAME .
*.example         CNAME rpz-drop.
local.test        A 192.0.2.1
local.test        AAAA 2001:db8::1
local.test        A 192.0.2.1
alias.test        CNAME garden.example.
*.wild.test       CNAME *.garden.example.
a\.b.test         CNAME .
*.*.star.test     CNAME .
rpz-ip.test       CNAME .
32.1.2.0.192.rpz-client-ip CNAME .
ns.example.rpz-nsdname CNAME .
32.1.2.0.192.rpz-nsip CNAME .
`)
	for _, tt := range []struct{ name, asked, want string }{
		{"exact", "bad.example.", "bad.example. nxdomain"},
		{"case", "BAD.eXample.", "bad.example. nxdomain"},
		{"case of a rule", "upper.example.", "upper.example. drop"},
		{"wildcard", "x.bad.example.", "*.bad.example. nodata"},
		{"wildcard, two labels", "x.y.bad.example.", "*.bad.example. nodata"},
		{"the wildcard itself", "*.bad.example.", "*.bad.example. nodata"},
		{"exact before wildcard", "ok.bad.example.", "ok.bad.example. passthru"},
		{"below a rule without a wildcard", "x.ok.bad.example.", "-"},
		{"TCP", "tcp.example.", "tcp.example. tcp-only"},
		{"an outer wildcard", "x.example.", "*.example. drop"},
		{"an empty non-terminal", "a.b.example.", "-"},
		{"beside the closest encloser", "x.b.example.", "-"},
		{"above", "example.", "-"},
		{"the end of a label", "verybad.example.", "*.example. drop"},
		{"local data, once each", "local.test.", "local.test. local local.test. 30 IN A 192.0.2.1 local.test. 30 IN AAAA 2001:db8::1"},
		{"local CNAME", "alias.test.", "alias.test. local alias.test. 30 IN CNAME garden.example."},
		{"wildcard target", "x.wild.test.", "*.wild.test. local x.wild.test. 30 IN CNAME *.garden.example."},
		{"a dot in a label", `a\.b.test.`, `a\.b.test. nxdomain`},
		{"not that dot", "a.b.test.", "-"},
		{"an asterisk within", "x.*.star.test.", "*.*.star.test. nxdomain"},
		{"which is no wildcard", "x.y.star.test.", "-"},
		{"rpz-ip elsewhere", "rpz-ip.test.", "rpz-ip.test. nxdomain"},
		{"unknown", "x.org.", "-"},
		{"the root", ".", "-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := name(t, r, tt.asked); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
	if s := r.Stats; s.Names != 13 || s.Addresses != 0 || s.Bad != 0 ||
		s.Skipped[rules.ClientIP] != 1 || s.Skipped[rules.NSDName] != 1 || s.Skipped[rules.NSIP] != 1 {
		t.Errorf("%+v", s)
	}
	if r.SOA == nil || r.SOA.Serial != 7 {
		t.Errorf("SOA %v", r.SOA)
	}
}

// *.ORIGIN is for all names, but those that the zone has something of.
func TestTopWildcard(t *testing.T) {
	r := read(t, "* CNAME .\nok.example CNAME rpz-passthru.\n")
	for asked, want := range map[string]string{
		"x.org.": "*. nxdomain", "org.": "*. nxdomain", "ok.example.": "ok.example. passthru", "example.": "-", "x.example.": "-", ".": "-",
	} {
		if got := name(t, r, asked); got != want {
			t.Errorf("%s: %s, want %s", asked, got, want)
		}
	}
	if got := name(t, read(t, "* CNAME .\n"), "a.b.c."); got != "*. nxdomain" {
		t.Error(got)
	}
}

func TestAddress(t *testing.T) {
	r := read(t, `
24.0.2.0.192.rpz-ip         CNAME .
32.1.2.0.192.rpz-ip         CNAME rpz-passthru.
8.0.0.0.10.rpz-ip           A 192.0.2.99
32.5.2.0.192.rpz-ip         CNAME 32.5.2.0.192.
32.zz.db8.2001.rpz-ip       CNAME *.
128.1.zz.db8.2001.rpz-ip    CNAME rpz-drop.
128.57.zz.1.0.db8.2001.rpz-ip CNAME .
64.0.0.0.0.1.0.db9.2001.rpz-ip CNAME .
32.9.1.0.198.rpz-ip CNAME .
32.13.0.0.198.rpz-ip CNAME *.
128.10.zz.5.2003.rpz-ip CNAME .
128.f.zz.6.2003.rpz-ip CNAME *.
`)
	if s := r.Stats; s.Addresses != 12 || s.Bad != 0 || s.Names != 0 {
		t.Fatalf("%+v", s)
	}
	for _, tt := range []struct{ asked, want string }{
		{"192.0.2.7", "192.0.2.0/24 nxdomain"},
		{"192.0.2.1", "192.0.2.1/32 passthru"},
		{"192.0.2.5", "192.0.2.5/32 passthru"},
		{"192.0.3.1", "-"},
		{"10.1.2.3", "10.0.0.0/8 local . 30 IN A 192.0.2.99"},
		{"2001:db8::2", "2001:db8::/32 nodata"},
		{"2001:db8::1", "2001:db8::1/128 drop"},
		{"2001:db8:0:1::57", "2001:db8:0:1::57/128 nxdomain"},
		{"2001:db9:0:1::57", "2001:db9:0:1::/64 nxdomain"},
		{"2001:dba::1", "-"},
		{"10.1.2.3 192.0.2.7", "192.0.2.0/24 nxdomain"},
		{"192.0.2.7 192.0.2.1", "192.0.2.1/32 passthru"},
		{"192.0.2.5 192.0.2.1", "192.0.2.1/32 passthru"},
		{"198.0.0.13 198.0.1.9", "198.0.1.9/32 nxdomain"},
		{"2003:5::10 2003:6::f", "2003:6::f/128 nodata"},
		{"192.0.2.7 2001:db8::1", "2001:db8::1/128 drop"},
		{"192.0.2.7 2001:db8::2", "192.0.2.0/24 nxdomain"},
	} {
		t.Run(tt.asked, func(t *testing.T) {
			var all []netip.Addr
			for _, a := range strings.Fields(tt.asked) {
				all = append(all, netip.MustParseAddr(a))
			}
			got := "-"
			if p, prefix := r.Address(all); p != 0 {
				got = prefix.String() + " " + policy(r, p, ".")
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
	if !r.HasAddresses(dns.TypeA) || !r.HasAddresses(dns.TypeANY) || r.HasAddresses(dns.TypeTXT) {
		t.Error("HasAddresses")
	}
}

func TestBadRules(t *testing.T) {
	for _, tt := range []struct{ name, line string }{
		{"no address", "32.rpz-ip CNAME ."},
		{"no prefix length", "x.1.2.0.192.rpz-ip CNAME ."},
		{"prefix length of IPv6 for IPv4", "33.1.2.0.192.rpz-ip CNAME ."},
		{"prefix length 0", "0.0.0.0.0.rpz-ip CNAME ."},
		{"bits behind the prefix", "24.1.2.0.192.rpz-ip CNAME ."},
		{"a byte too large", "32.256.2.0.192.rpz-ip CNAME ."},
		{"a leading zero", "32.01.2.0.192.rpz-ip CNAME ."},
		{"three bytes", "32.2.0.192.rpz-ip CNAME ."},
		{"a word too large", "128.10000.zz.rpz-ip CNAME ."},
		{"zz twice", "128.1.zz.2.zz.rpz-ip CNAME ."},
		{"nine words", "128.1.2.3.4.5.6.7.8.9.rpz-ip CNAME ."},
		{"zz and eight words", "128.1.2.3.4.zz.5.6.7.8.rpz-ip CNAME ."},
		{"a wildcard", "*.rpz-ip CNAME ."},
		{"NS", "x.example NS ns.example."},
		{"DNAME", "x.example DNAME y.example."},
		{"another zone", "x.example. A 192.0.2.1"},
		{"another class", "x.example CH TXT x"},
		{"TXT and a blank", "x.example TXT "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := read(t, tt.line+"\n").Stats
			if s.Bad != 1 || s.Names+s.Addresses != 0 {
				t.Errorf("%+v", s)
			}
			golden.Check(t, s.FirstBad)
		})
	}
}

func TestBadZones(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"no SOA", "x.example CNAME .\n"},
		{"two SOAs", head + "@ SOA ns.rpz. hostmaster.rpz. 8 3600 600 86400 60\n"},
		{"CNAME and A", head + "x CNAME .\nx A 192.0.2.1\n"},
		{"A and CNAME", head + "x A 192.0.2.1\nx CNAME y.\n"},
		{"apart", head + "x CNAME z.\ny CNAME .\nx A 192.0.2.1\n"},
		{"two CNAMEs", head + "x CNAME y.\nx CNAME z.\n"},
		{"two actions", head + "x CNAME .\ny CNAME .\nx CNAME *.\n"},
		{"of an address", head + "32.1.2.0.192.rpz-ip CNAME .\n32.1.2.0.192.rpz-ip A 192.0.2.1\n"},
		{"half a line", head + "x CNAME .\ny CNA"},
		{"half a target", head + "x CNAME rpz-pass"},
		{"half a comment", head + "x CNAME .\n; an"},
		{"A without data", head + "x CNAME .\ny A\n"},
		{"AAAA without data", head + "x AAAA\n"},
		{"CNAME without data", head + "x CNAME\n"},
		{"MX without data", head + "x MX\n"},
		{"TXT without data", head + "x TXT\n"},
		{"CAA without data", head + "x CAA\n"},
		{"include", head + "$INCLUDE other\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := rules.Read(strings.NewReader(tt.text), "rpz.", "rpz.zone", rules.Limits{})
			if err == nil {
				t.Fatal("taken")
			}
			golden.Check(t, err.Error())
		})
	}
	// The same rule again is no other.
	if s := read(t, "x CNAME .\ny CNAME z.\nx CNAME .\ny CNAME z.\n").Stats; s.Names != 2 || s.Bad != 0 {
		t.Errorf("%+v", s)
	}
	if _, err := rules.NewBuilder(".", rules.Limits{}); err == nil {
		t.Error("the root is taken for the name of a zone")
	}
}

// A transfer may have records without RDATA, or with half of it, which package dns unpacks.
func TestRecordsWithoutData(t *testing.T) {
	for _, tt := range []struct {
		name   string
		data   string // RDATA
		rrtype uint16
		rules  int
	}{
		{"A", "", dns.TypeA, 0},
		{"AAAA", "", dns.TypeAAAA, 0},
		{"CNAME", "", dns.TypeCNAME, 0},
		{"TXT", "", dns.TypeTXT, 0},
		{"MX", "", dns.TypeMX, 0},
		{"half of MX", "\x00\x0a", dns.TypeMX, 0},
		{"half of SRV", "\x00\x0a\x00\x00", dns.TypeSRV, 0},
		{"HTTPS", "", dns.TypeHTTPS, 0},
		{"all of MX", "\x00\x0a\x00", dns.TypeMX, 1},
		{"all of HTTPS", "\x00\x01\x00", dns.TypeHTTPS, 1},
		{"all of TXT", "\x00", dns.TypeTXT, 1},
		{"APL, which may be empty", "", dns.TypeAPL, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := dns.RR_Header{Name: "x.rpz.", Rrtype: tt.rrtype, Class: dns.ClassINET, Rdlength: uint16(len(tt.data))}
			rr, _, err := dns.UnpackRRWithHeader(h, []byte(tt.data), 0)
			if err != nil {
				t.Fatal(err)
			}
			if s := rulesOf(t, slices.Values([]dns.RR{rr})).Stats; s.Names != tt.rules || s.Bad != 1-tt.rules {
				t.Errorf("%+v, want %d rules", s, tt.rules)
			}
		})
	}
}

func TestSetName(t *testing.T) {
	label := strings.Repeat("a", 63)
	long := label + "." + label + "." + label + "."
	for s, want := range map[string]bool{
		"": false, ".": true, "a": false, "a.": true, "a..b.": false, ".a.": false,
		label + ".": true, label + "a.": false,
		long + label[:61] + ".": true, long + label[:62] + ".": false,
		`\097.`: true, `\`: false, `a\.`: false,
	} {
		var n rules.Name
		if got := n.Set(s); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
	var a, b rules.Name
	a.Set(`\065.example.`)
	b.Set("a.example.")
	if a != b {
		t.Error("an escaped letter is another one")
	}
}

func TestTarget(t *testing.T) {
	for _, tt := range []struct {
		target, name, want string
		expanded           bool
	}{
		{"garden.example.", "bad.test.", "garden.example.", false},
		{"*.garden.example.", "bad.test.", "bad.test.garden.example.", true},
		{"*.garden.example.", ".", "", true},
		{"*.garden.example.", strings.Repeat("a.", 120), "", true},
	} {
		got, expanded := rules.Target(&dns.CNAME{Target: tt.target}, tt.name)
		if got != tt.want || expanded != tt.expanded {
			t.Errorf("%s for %s: %q, %v", tt.target, tt.name, got, expanded)
		}
	}
}

// million has a million rules, for names that share nothing but the last label, or for hosts of
// as many domains, which takes twice the places.
func million(t testing.TB, owner string) *rules.Rules {
	t.Helper()
	return rulesOf(t, func(yield func(dns.RR) bool) {
		for i := range 1_000_000 {
			if !yield(&dns.CNAME{Hdr: dns.RR_Header{Name: fmt.Sprintf(owner, i), Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 60}, Target: "."}) {
				return
			}
		}
	})
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A million rules, each for another domain, take at most 150 MB.
func TestMemory(t *testing.T) {
	before := heap()
	r := million(t, "www.malicious-%07d.example.rpz.")
	took := int64(heap()) - int64(before)
	t.Logf("%d bytes of heap, of %d counted", took, r.Size())
	if took > 150e6 || r.Size() > 150e6 {
		t.Errorf("%d bytes, counted %d", took, r.Size())
	}
	if r.Stats.Names != 1_000_000 {
		t.Errorf("%+v", r.Stats)
	}
	runtime.KeepAlive(r)
}

// A zone over a limit is refused, however it uses its records, and before it takes much more memory.
func TestLimits(t *testing.T) {
	limits := rules.Limits{Records: 200_000, Bytes: 4 << 20}
	long := strings.Repeat("x.", 90)
	text := strings.Repeat("y", 200)
	for _, tt := range []struct {
		name, want string
		rr         func(i int) string
	}{
		{"rules", "bytes", func(i int) string { return fmt.Sprintf("bad-%d.example.rpz. CNAME .", i) }},
		{"one rule", "records", func(int) string { return "bad.example.rpz. CNAME ." }},
		{"names outside the zone", "records", func(i int) string { return fmt.Sprintf("bad-%d.example. CNAME .", i) }},
		{"triggers that are skipped", "records", func(i int) string { return fmt.Sprintf("32.%d.2.0.192.rpz-client-ip.rpz. CNAME .", i%256) }},
		{"names of many labels", "bytes", func(i int) string { return fmt.Sprintf("%s%d.rpz. CNAME .", long, i) }},
		{"local data", "bytes", func(i int) string { return fmt.Sprintf("bad-%d.example.rpz. TXT %d%s", i%1000, i, text) }},
		{"local data of one name", "one name", func(i int) string { return fmt.Sprintf("bad.example.rpz. TXT %d%s", i, text) }},
		{"local data of two names by turns", "bytes", func(i int) string { return fmt.Sprintf("bad-%d.example.rpz. A 192.0.%d.%d", i%2, i>>8&0xff, i&0xff) }},
		{"IPv4", "bytes", func(i int) string {
			return fmt.Sprintf("32.%d.%d.%d.10.rpz-ip.rpz. CNAME .", i&1*128, i>>1&0xff, i>>9&0xff)
		}},
		{"IPv6", "bytes", func(i int) string { return fmt.Sprintf("128.%x.zz.%x.2001.rpz-ip.rpz. CNAME .", i&1, i>>1&0xffff) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := heap()
			b, err := rules.NewBuilder("rpz.", limits)
			if err != nil {
				t.Fatal(err)
			}
			added := 0
			for ; err == nil && added < 2*limits.Records; added++ {
				rr, parseErr := dns.NewRR(tt.rr(added))
				if parseErr != nil {
					t.Fatal(parseErr)
				}
				err = b.Add(rr)
			}
			took := int64(heap()) - int64(before)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if tt.want != "one name" && !errors.Is(err, rules.ErrTooLarge) {
				t.Errorf("%v is not ErrTooLarge", err)
			}
			if added > limits.Records+1 || took > 3*limits.Bytes {
				t.Errorf("%d records, %d bytes of heap", added, took)
			}
			t.Logf("%d records, %d bytes of heap: %v", added, took, err)
			runtime.KeepAlive(b)
		})
	}
}

// A file over a limit is refused, though no line of it is a record.
func TestLimitsOfFile(t *testing.T) {
	limits := rules.Limits{Records: 1000, Bytes: 1 << 20}
	for _, tt := range []struct{ name, begin, more string }{
		{"rules", "", "bad.example CNAME .\n"},
		{"comments", "", "; a comment\n"},
		{"blank lines", "", "\n"},
		{"one line without an end", "", "y"},
		{"one text without an end", `x TXT "`, "y"},
		{"rules that are generated", "", "$GENERATE 1-60000 bad-$ CNAME .\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			endless := &repeated{text: tt.more}
			_, err := rules.Read(io.MultiReader(strings.NewReader(head+tt.begin), endless), "rpz.", "rpz.zone", limits)
			if !errors.Is(err, rules.ErrTooLarge) || endless.read > 5<<20 {
				t.Errorf("%v after %d bytes", err, endless.read)
			}
		})
	}
	if _, err := rules.Read(strings.NewReader(head), "rpz.", "", rules.Limits{Records: 2, Bytes: 1 << 20}); err != nil {
		t.Errorf("a zone within the limits: %v", err)
	}
}

// repeated is a text that is repeated up to 32 MiB.
type repeated struct {
	text string
	read int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.read > 32<<20 {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) {
		k := copy(p[n:], r.text[(r.read+n)%len(r.text):])
		n += k
	}
	r.read += n
	return n, nil
}

// A lookup allocates nothing.
func TestAllocations(t *testing.T) {
	r := read(t, "bad.example CNAME .\n*.bad.example CNAME .\n24.0.2.0.192.rpz-ip CNAME .\n")
	addresses := []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	if n := testing.AllocsPerRun(100, func() {
		var n rules.Name
		n.Set("www.bad.example.")
		r.Name(&n)
		r.Address(addresses)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkName looks for names among a million rules.
func BenchmarkName(b *testing.B) {
	r := million(b, "www.malicious-%07d.example.rpz.")
	names := make([]string, 1<<16)
	for _, bench := range []struct{ name, form string }{
		{"miss", "www.innocent-%07d.example."},
		{"miss in a domain that is there", "mail.malicious-%07d.example."},
		{"hit", "www.malicious-%07d.example."},
	} {
		for i := range names {
			names[i] = fmt.Sprintf(bench.form, i*15%1_000_000)
		}
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				var n rules.Name
				n.Set(names[i&(len(names)-1)])
				r.Name(&n)
				i++
			}
		})
	}
}

// BenchmarkAddress looks for addresses among 100,000 rules.
func BenchmarkAddress(b *testing.B) {
	var text strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&text, "32.%d.%d.%d.10.rpz-ip CNAME .\n", i&0xff, i>>8&0xff, i>>16)
	}
	r := read(b, text.String())
	a := []netip.Addr{netip.MustParseAddr("10.200.3.4")}
	b.ReportAllocs()
	for b.Loop() {
		r.Address(a)
	}
}

// BenchmarkRead reads 100,000 rules.
func BenchmarkRead(b *testing.B) {
	var text strings.Builder
	text.WriteString(head)
	for i := range 100_000 {
		fmt.Fprintf(&text, "malicious-%07d.example CNAME .\n*.malicious-%07d.example CNAME .\n", i, i)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rules.Read(strings.NewReader(text.String()), "rpz.", "rpz.zone", rules.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzRead reads any text as a zone. Each rule that it has can be looked up, and its records can
// be used.
func FuzzRead(f *testing.F) {
	f.Add(head+"bad.example CNAME .\n*.bad.example A 192.0.2.1\n", "x.bad.example.")
	f.Add(head+"32.1.2.0.192.rpz-ip CNAME *.garden.\n128.zz.1.rpz-ip TXT a\n", "a.")
	f.Add(head+"www.example A\n", "www.example.")
	f.Add(head+"www.example TXT \nwww.example MX\n", "www.example.")
	f.Add(head+"www.example CNAME rpz-pass", "www.example.")
	f.Add(head+"a\\.b A 192.0.2.1\n@ A 192.0.2.1\n* CNAME .\n", `a\.b.`)
	f.Add(head+"$GENERATE 1-2000 bad-$ CNAME .\n", "bad-1.")
	f.Fuzz(func(t *testing.T, text, asked string) {
		limits := rules.Limits{Records: 1000, Bytes: 1 << 20}
		r, err := rules.Read(strings.NewReader(text), "rpz.", "rpz.zone", limits)
		if err != nil {
			return
		}
		if n := r.Stats.Names + r.Stats.Addresses; n >= limits.Records || r.Size() > int(limits.Bytes) {
			t.Errorf("%d rules in %d bytes", n, r.Size())
		}
		if r.SOA == nil {
			t.Fatal("no SOA")
		}
		var n rules.Name
		if n.Set(asked) {
			p, wildcard, by := r.Name(&n)
			if p != 0 {
				n.Trigger(wildcard, by)
			}
			if p.Action() == rules.Local {
				records := r.Records(p, asked, 5)
				if len(records) == 0 || slices.ContainsFunc(records, lacksData) {
					t.Errorf("local data %v", records)
				}
			}
		}
		for _, a := range []string{"192.0.2.1", "2001:db8::1"} {
			p, prefix := r.Address([]netip.Addr{netip.MustParseAddr(a)})
			if p != 0 && !prefix.Contains(netip.MustParseAddr(a)) {
				t.Errorf("%s for %s", prefix, a)
			}
		}
	})
}

// lacksData reports whether a record is without data that its type has.
func lacksData(rr dns.RR) bool {
	switch rr := rr.(type) {
	case *dns.A:
		return len(rr.A) == 0
	case *dns.AAAA:
		return len(rr.AAAA) == 0
	case *dns.CNAME:
		return rr.Target == ""
	case *dns.MX:
		return rr.Mx == ""
	case *dns.TXT:
		return len(rr.Txt) == 0
	}
	return false
}

// FuzzTrigger takes any owner as the owner of a rule. A rule for a name matches that name, and a rule for an
// address matches an address of its prefix.
func FuzzTrigger(f *testing.F) {
	for _, s := range []string{"bad.example.", "*.bad.example.", "32.1.2.0.192.rpz-ip.", "128.1.zz.db8.2001.rpz-ip.", "128.zz.rpz-ip.", `a\.b\000.`, "x.rpz-nsip."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, owner string) {
		rr := &dns.CNAME{Hdr: dns.RR_Header{Name: owner + "rpz.", Rrtype: dns.TypeCNAME, Class: dns.ClassINET}, Target: "."}
		r := rulesOf(t, slices.Values([]dns.RR{rr}))
		s := r.Stats
		if got := s.Names + s.Addresses + s.Bad + s.Skipped[rules.ClientIP] + s.Skipped[rules.NSIP] + s.Skipped[rules.NSDName]; got > 1 {
			t.Errorf("%+v", s)
		}
		var n rules.Name
		if s.Names == 1 && n.Set(owner) {
			if p, _, _ := r.Name(&n); p.Action() != rules.NXDomain {
				t.Errorf("%q does not match itself", owner)
			}
		}
	})
}
