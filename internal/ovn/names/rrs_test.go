// SPDX-License-Identifier: Apache-2.0

package names

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/testkit"
)

// pairs is a column of keys and values.
func pairs(diff bool, kv ...string) Records {
	return Records{Count: len(kv) / 2, Diff: diff, Pairs: func(yield func(k, v []byte) bool) {
		for i := 0; i < len(kv) && yield([]byte(kv[i]), []byte(kv[i+1])); i += 2 {
		}
	}}
}

// rrRow compiles keys and values, which have to be readable.
func rrRow(t testing.TB, kv ...string) *RRTable {
	return (*RRTable)(nil).Update(pairs(false, kv...), Reports{ignore.Begin, func(where, value string, err error) {
		t.Errorf("%s: %q: %v", where, value, err)
	}})
}

func TestParseRRs(t *testing.T) {
	long := `"` + strings.Repeat("x", 255) + `"`
	tests := []struct {
		name, key, value string
		want             []string
		bad              error // nil for none, errAny for one of the parser
	}{
		{"CNAME", "dns-cname/www.a", "web.a", []string{"web.a."}, nil},
		{"CNAME, absolute", "dns-cname/www.a.", "Web.a.", []string{"Web.a."}, nil},
		{"MX", "dns-mx/a", "10 mx1.a\n20 mx2.a.", []string{"10 mx1.a.", "20 mx2.a."}, nil},
		{"null MX", "dns-mx/a", "0 .", []string{"0 ."}, nil},
		{"SRV", "dns-srv/_sip._tcp.a", "10 5 5060 sip.a", []string{"10 5 5060 sip.a."}, nil},
		{"TXT, quoted", "dns-txt/a", `"v=spf1 mx -all"`, []string{`"v=spf1 mx -all"`}, nil},
		{"TXT, two strings", "dns-txt/a", `v=spf1 -all`, []string{`"v=spf1" "-all"`}, nil},
		{"TXT, a semicolon in quotes", "dns-txt/a", `"v=DKIM1; p=a+b/="`, []string{`"v=DKIM1; p=a+b/="`}, nil},
		{"TXT, an empty string", "dns-txt/a", `""`, []string{`""`}, nil},
		{"TXT, escapes", "dns-txt/a", `\"\\\001`, []string{`"\"\\\001"`}, nil},
		{"empty lines and carriage returns", "dns-mx/a", "\n 10 b \r\n\n\t20 c\n", []string{"10 b.", "20 c."}, nil},
		{"the same twice", "dns-mx/a", "10 b\n10 B.", []string{"10 b."}, nil},
		{"a comment", "dns-mx/a", "10 b ; the first", []string{"10 b."}, nil},
		{"any byte in a name", "dns-cname/a", `x\.y\032.b`, []string{`x\.y\ .b.`}, nil},
		{"RFC 3597, too short", "dns-mx/a", `\# 1 00`, nil, errAny},
		{"RFC 3597", "dns-mx/a", `\# 5 000a 016200`, []string{"10 b."}, nil},

		{"a bad line beside a good one", "dns-mx/a", "ten b\n20 c", []string{"20 c."}, errAny},
		{"an empty value", "dns-mx/a", "", nil, errEmptyRR},
		{"nothing but empty lines", "dns-txt/a", " \n\r\n", nil, errEmptyRR},
		{"nothing but a comment", "dns-mx/a", "; none", nil, errAny},
		{"a comment for TXT", "dns-txt/a", ";", nil, errNoRR},
		{"a whole record", "dns-mx/a", "a. 300 IN MX 10 b", nil, errAny},
		{"a TTL", "dns-mx/a", "300 IN 10 b", nil, errAny},
		{"trailing data", "dns-mx/a", "10 b c", nil, errAny},
		{"an open parenthesis", "dns-mx/a", "( 10 b", nil, errAny},
		{"an open quotation mark", "dns-txt/a", `"x`, nil, errAny},
		{"$INCLUDE", "dns-mx/a", "$INCLUDE /etc/passwd", nil, errAny},
		{"a name that is too long", "dns-cname/a", strings.Repeat("a.", 128), nil, errAny},
		{"an empty label", "dns-cname/a", "b..c", nil, errAny},
		{"CNAME to an address", "dns-cname/a", "10.0.0.1", nil, errAddressForName},
		{"MX to an address", "dns-mx/a", "10 10.0.0.1", nil, errAddressForName},
		{"SRV to an address", "dns-srv/a", "0 0 1 10.0.0.1.", nil, errAddressForName},
		{"CNAME to the root", "dns-cname/a", ".", nil, errAliasRoot},
		{"two CNAME records", "dns-cname/a", "b\nc", nil, errAliases},
		{"too many records", "dns-mx/a", manyLines(maxRRs+1, "%d b"), nil, errRRs},
		{"as many as there may be", "dns-mx/a", manyLines(maxRRs, "%d b"), slices.Collect(func(yield func(string) bool) {
			for i := range maxRRs {
				yield(fmt.Sprintf("%d b.", i))
			}
		}), nil},
		{"too much RDATA", "dns-txt/a", strings.Repeat(long+" ", maxRDATA/256) + "x", nil, errRDATA},
		{"as much as there may be", "dns-txt/a", strings.Repeat(long+" ", maxRDATA/256), []string{strings.TrimSpace(strings.Repeat(long+" ", maxRDATA/256))}, nil},
		{"too much text", "dns-txt/a", strings.Repeat("\n", maxRRText) + "x", nil, errRRText},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rrtype, _, err := ParseRRKey(tt.key)
			if err != nil {
				t.Fatal(err)
			}
			var bad error
			rrs := parseRRs(tt.key, rrtype, tt.value, func(where, value string, err error) {
				if where != tt.key || (value == "") != errors.Is(err, errEmptyRR) || bad != nil {
					t.Errorf("reported %q %q", where, value)
				}
				bad = err
			})
			if got := testkit.Data(rrs); !slices.Equal(got, tt.want) {
				t.Errorf("got %q", got)
			}
			if (bad == nil) != (tt.bad == nil) || tt.bad != nil && !errors.Is(tt.bad, errAny) && !errors.Is(bad, tt.bad) {
				t.Errorf("reported %v, want %v", bad, tt.bad)
			}
			for _, rr := range rrs {
				if *rr.Header() != (dns.RR_Header{Rrtype: rrtype}) {
					t.Errorf("header %+v", rr.Header())
				}
			}
		})
	}
}

var errAny = errors.New("any error")

func manyLines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format+"\n", i)
	}
	return b.String()
}

func TestRRKeys(t *testing.T) {
	for _, tt := range []struct {
		key    string
		is     bool
		rrtype uint16
		name   string
	}{
		{"dns-txt/VM1.A", true, dns.TypeTXT, "vm1.a."},
		{"dns-cname/0/25.2.0.192.in-addr.arpa", true, dns.TypeCNAME, "0/25.2.0.192.in-addr.arpa."},
		{"dns-mx/*.a.", true, dns.TypeMX, "*.a."},
		{"dns-mx/", true, 0, ""},
		{"dns-mx/a..b", true, 0, ""},
		{"dns-a/x", true, 0, ""},
		{"dns-MX/x", true, 0, ""},
		{"dns-mx:x", false, 0, ""},
		{"dns_id", false, 0, ""},
		{"x/dns-mx/", false, 0, ""},
	} {
		if got := isRRKey([]byte(tt.key)); got != tt.is {
			t.Errorf("%q is a key: %v", tt.key, got)
		}
		if !tt.is {
			continue
		}
		rrtype, name, err := ParseRRKey(tt.key)
		if err == nil && (rrtype != tt.rrtype || name != tt.name) || (err == nil) != (tt.name != "") {
			t.Errorf("%q: %d %q %v", tt.key, rrtype, name, err)
		}
	}
}

// What is said of a name depends on what the row has, and not on the order in which it came.
func TestCompose(t *testing.T) {
	for _, tt := range []struct {
		name string
		kv   []string
		want string // of ANY
		bad  int
	}{
		{"types in their order", []string{"dns-txt/a", "x", "dns-srv/a", "0 0 1 b", "dns-mx/a", "1 b"}, `MX:1/b. TXT:"x" SRV:0/0/1/b.`, 0},
		{"CNAME alone", []string{"dns-cname/a", "B.c"}, "CNAME:B.c.", 0},
		{"CNAME beside others", []string{"dns-txt/a", "x", "dns-cname/a", "b"}, `TXT:"x"`, 1},
		{"CNAME beside what can't be read", []string{"dns-mx/a", "x", "dns-cname/a", "b"}, "CNAME:b.", 1},
		{"the key in lower case first", []string{"dns-txt/A", "upper", "dns-txt/a", "lower"}, `TXT:"lower"`, 0},
		{"the first that can be read", []string{"dns-mx/A", "1 upper", "dns-mx/a", "lower"}, "MX:1/upper.", 1},
		{"of two keys, each a type", []string{"dns-mx/A", "1 b", "dns-txt/a", "x"}, `MX:1/b. TXT:"x"`, 0},
		{"nothing of ours", []string{"ls_name", "a"}, "", 0},
		{"nothing that can be read", []string{"dns-a/a", "10.0.0.1"}, "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 {
				bad := 0
				table := (*RRTable)(nil).Update(pairs(false, tt.kv...), Reports{ignore.Begin, func(string, string, error) { bad++ }})
				got := ""
				if table != nil {
					got = show(Answer{RRs: table.of("a.")})
				}
				if got != tt.want || bad != tt.bad {
					t.Errorf("got %q and %d reports, want %q and %d", got, bad, tt.want, tt.bad)
				}
				slices.Reverse(tt.kv) // the pairs, and each of them
				for i := 0; i < len(tt.kv); i += 2 {
					tt.kv[i], tt.kv[i+1] = tt.kv[i+1], tt.kv[i]
				}
			}
		})
	}
}

func TestRRsOf(t *testing.T) {
	r := rrRow(t, "dns-txt/a", "x\ny", "dns-srv/a", "0 0 1 b", "dns-cname/c", "d")
	for _, tt := range []struct {
		name  string
		qtype uint16
		want  string
	}{
		{"a.", dns.TypeTXT, `["\"x\"" "\"y\""]`},
		{"a.", dns.TypeSRV, `["0 0 1 b."]`},
		{"a.", dns.TypeMX, `[]`},
		{"a.", dns.TypeCNAME, `[]`},
		{"a.", dns.TypeANY, `["\"x\"" "\"y\"" "0 0 1 b."]`},
		{"c.", dns.TypeCNAME, `["d."]`},
		{"c.", dns.TypeA, `["d."]`},
		{"none.", dns.TypeA, `[]`},
	} {
		if got := fmt.Sprintf("%q", testkit.Data(r.of(tt.name).Of(tt.qtype))); got != tt.want {
			t.Errorf("%s %d: %s, want %s", tt.name, tt.qtype, got, tt.want)
		}
	}
	if r.of("a.").Alias() != "" || r.of("c.").Alias() != "d." || r.of("none.").Alias() != "" {
		t.Error("aliases")
	}
}

func TestDirectoryOfRRs(t *testing.T) {
	d := new(Directory).With(
		[]*Table{
			row("vm1 10.0.0.1", "*.w 10.0.0.4", "9.0.0.10.in-addr.arpa other.test", "alias 10.0.0.7", "deep.ent 10.0.0.8"),
			row("void x").WithOwned(true),
		},
		[]*RRTable{
			rrRow(t, "dns-txt/vm1", "first", "dns-txt/web.corp.test", "bare", "dns-txt/full.red.test", "full", "dns-cname/alias", "vm1",
				"dns-cname/www", "vm1", "dns-txt/void", "x", "dns-txt/a.b", "x", "dns-txt/*.w", "wild", "dns-cname/*.v", "vm1",
				"dns-txt/1.0.0.10.in-addr.arpa", "ptr", "dns-cname/9.0.0.10.in-addr.arpa", "x", "dns-cname/ent", "vm1", "dns-mx/*.only.w", "1 b", "dns-txt/*.sub.x.n", "x"),
			rrRow(t, "dns-mx/vm1", "1 hidden", "dns-mx/own", "1 b", "dns-txt/web", "second").WithOwned(true),
		},
		hosts(port{"web.", "", "10.1.0.1"}, port{"full.", "red.test.", "10.1.0.2"}))
	for _, tt := range []struct{ name, domain, want string }{
		{"vm1.", "", `10.0.0.1 TXT:"first"`}, // and not what the second row has
		{"web.", "", `!10.1.0.1 TXT:"second"`},
		{"web.corp.test.", "", `TXT:"bare"`},
		{"web.corp.test.", "corp.test.", `10.1.0.1 TXT:"bare"`},
		{"full.red.test.", "", `10.1.0.2 TXT:"full"`},
		{"alias.", "", "10.0.0.7"}, // addresses win
		{"www.", "", "CNAME:vm1."},
		{"own.", "", "!MX:1/b."},
		{"void.", "", `!TXT:"x"`}, // owned by the row of the value that can't be read
		{"b.", "", "empty"},
		{"x.w.", "", `10.0.0.4 TXT:"wild"`},
		{"only.w.", "", "empty"},
		{"x.only.w.", "", "MX:1/b."},
		{"x.v.", "", "CNAME:vm1."},
		{"*.v.", "", "CNAME:vm1."},
		{"q.x.n.", "", "none"},
		{"q.sub.x.n.", "", `TXT:"x"`},
		{"ent.", "", "CNAME:vm1."},
		{"1.0.0.10.in-addr.arpa.", "", `vm1. TXT:"ptr"`},
		{"9.0.0.10.in-addr.arpa.", "", "other.test."},
		{"none.", "", "none"},
	} {
		for _, others := range []int{0, minIndexed} {
			e := new(Union).Edit()
			none := NewDirectory(nil, hosts())
			for i := range others {
				e.Set([16]byte{byte(i + 1)}, &none)
			}
			e.Set([16]byte{100}, &d)
			for i, s := range []Scope{NewScope(&d, nil), NewScope(&none, e.Done())} {
				if got := ask(s, tt.name, tt.domain); got != tt.want {
					t.Errorf("%s, domain %q, scope %d of %d: got %q, want %q", tt.name, tt.domain, i, others, got, tt.want)
				}
			}
		}
		// An exact match is the whole answer, whatever the domain.
		if m, ok := d.Exact(tt.name); ok {
			if got, want := m.Answer(), must(d.Lookup(tt.name, tt.domain)); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: exact %+v, want %+v", tt.name, got, want)
			}
		}
	}
}

func must(a Answer, _ bool) Answer { return a }

// FuzzRRTable: a table that was made by differences is that which is made of all keys at once,
// the tables before are as they were, and what it has can be sent under any name.
func FuzzRRTable(f *testing.F) {
	f.Add("dns-mx/a 10 b|20 c\ndns-MX/a x\ndns-cname/a b\ndns-mx/a 10 b|20 c\nls_name x")
	f.Add("dns-txt/*.a.b \"v=DKIM1; p=x\" \"y\"\ndns-txt/A.b \\000\\255\ndns-cname/*.b.c d\ndns-cname/*.b.c d")
	f.Add("dns-srv/_s._t.a 1 2 3 .\ndns-srv/_s._t.a \\# 7 00010002000300\ndns-txt/ x\ndns-cname/a $INCLUDE /etc/passwd\ndns-mx/a ( 10 b")
	f.Fuzz(func(t *testing.T, text string) {
		var table *RRTable
		have, told, toldAtOnce := map[string]string{}, standing{}, standing{}
		for _, line := range strings.Split(text, "\n") {
			k, v, _ := strings.Cut(line, " ")
			v = strings.ReplaceAll(v, "|", "\n")
			before, structure := table, pictureOfRRs(table)
			table = table.Update(pairs(true, k, v), told.reports())
			if got := pictureOfRRs(before); got != structure {
				t.Fatalf("%q has altered the table before", line)
			}
			switch old, ok := have[k]; {
			case !isRRKey([]byte(k)):
			case ok && old == v:
				delete(have, k)
			default:
				have[k] = v
			}
		}
		kv := []string{"other", "x"}
		for _, k := range slices.Sorted(maps.Keys(have)) {
			kv = append(kv, k, have[k])
		}
		whole := pairs(false, kv...)
		if !table.Has(whole) {
			t.Fatalf("the table has not %q", kv)
		}
		fresh := (*RRTable)(nil).Update(whole, toldAtOnce.reports())
		if got, want := pictureOfRRs(table), pictureOfRRs(fresh); got != want {
			t.Fatalf("by differences\n%s\nat once\n%s", got, want)
		}
		if !reflect.DeepEqual(told, toldAtOnce) {
			t.Fatalf("by differences it can't read %q, at once %q", told, toldAtOnce)
		}
		if table != nil {
			checkRRs(t, table)
		}
	})
}

// pictureOfRRs is all that a table has.
func pictureOfRRs(t *RRTable) string {
	if t == nil {
		return "none"
	}
	var names []string
	for name, r := range t.names.all() {
		names = append(names, fmt.Sprintf("%s %q %q", name, testkit.Data((*r).all), (*r).alias))
	}
	return fmt.Sprint(slices.Sorted(maps.Keys(t.sets)), t.keys, names, t.names.slots, t.names.wildcards)
}

// checkRRs packs what each name has under the longest name that there is.
func checkRRs(t *testing.T, table *RRTable) {
	longest := strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("a", 61) + "."
	checkTree(t, &table.names)
	for name, has := range table.names.all() {
		r := *has
		m := new(dns.Msg).SetQuestion(longest, dns.TypeANY)
		m.Compress = true
		for _, rr := range r.Of(dns.TypeANY) {
			rr = dns.Copy(rr)
			*rr.Header() = dns.RR_Header{Name: longest, Rrtype: rr.Header().Rrtype, Class: dns.ClassINET}
			m.Answer = append(m.Answer, rr)
		}
		b, err := m.Pack()
		back := new(dns.Msg)
		if err == nil {
			err = back.Unpack(b)
		}
		if err != nil || len(back.Answer) != len(m.Answer) {
			t.Fatalf("%s: %v: %v", name, testkit.Data(r.all), err)
		}
		for i, rr := range back.Answer {
			if !dns.IsDuplicate(rr, m.Answer[i]) {
				t.Fatalf("%s: %v has become %v", name, m.Answer[i], rr)
			}
		}
		if (r.alias != "") != (r.all[0].Header().Rrtype == dns.TypeCNAME) || r.alias != "" && len(r.all) > 1 {
			t.Fatalf("%s: alias %q of %v", name, r.alias, testkit.Data(r.all))
		}
	}
}
