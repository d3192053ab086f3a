// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// showForwards are zones as ZONE=SERVER,...
func showForwards(all []*Forward) string {
	var texts []string
	for _, z := range all {
		var servers []string
		for _, s := range z.Servers {
			servers = append(servers, s.String())
		}
		texts = append(texts, z.Zone+"="+strings.Join(servers, ","))
	}
	return strings.Join(texts, " ")
}

func TestParseForwards(t *testing.T) {
	many := func(n int, sep, format string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return strings.Join(all, sep)
	}
	for _, tt := range []struct{ name, text, want, bad string }{
		{"nothing", "", "", ""},
		{"one", "corp.example=10.1.0.53", "corp.example.=10.1.0.53:53", ""},
		{"several", "corp.example=10.1.0.53,10.1.0.54:5353;other.example=10.2.0.53", "corp.example.=10.1.0.53:53,10.1.0.54:5353 other.example.=10.2.0.53:53", ""},
		{"IPv6", "a.=fd00::1,[fd00::1],[fd00::1]:5353,[fd00::2]:53", "a.=[fd00::1]:53,[fd00::1]:5353,[fd00::2]:53", `"[fd00::1]"`},
		{"blanks", " Corp.Example = 10.1.0.53 , 10.1.0.54 ; ; b=10.0.0.1;", "corp.example.=10.1.0.53:53,10.1.0.54:53 b.=10.0.0.1:53", ""},
		{"a mapped address is the IPv4 one", "a=::ffff:10.1.0.53,10.1.0.53", "a.=10.1.0.53:53", ""},
		{"the root", ".=192.0.2.1", ".=192.0.2.1:53", ""},
		{"a reverse zone", "10.in-addr.arpa=192.0.2.1", "10.in-addr.arpa.=192.0.2.1:53", ""},
		{"no servers", "a;b=", "b.=", `"a" ""`},
		{"wrong servers", "a=ns1.example,10.0.0.1:0,10.0.0.1:65536,fe80::1%eth0,10.0.0.300,10.0.0.2", "a.=10.0.0.2:53", `"ns1.example" "10.0.0.1:0" "10.0.0.1:65536" "fe80::1%eth0" "10.0.0.300"`},
		{"all servers are wrong", "a=ns1.example", "a.=", `"ns1.example"`},
		{"wrong zones", "=10.0.0.1;a..b=10.0.0.1;" + strings.Repeat("x", 64) + "=10.0.0.1;c=10.0.0.1", "c.=10.0.0.1:53", `"=10.0.0.1" "a..b=10.0.0.1" "` + strings.Repeat("x", 64) + `=10.0.0.1"`},
		{"a zone twice", "a=10.0.0.1;A.=10.0.0.2", "a.=10.0.0.1:53", `"A.=10.0.0.2"`},
		{"too many zones", many(MaxForwardZones+1, ";", "z%d=10.0.0.1"), strings.ReplaceAll(many(MaxForwardZones, " ", "z%d.=10.0.0.1:53"), ";", " "), fmt.Sprintf(`"z%d=10.0.0.1"`, MaxForwardZones)},
		{"too many servers", "a=" + many(MaxForwardServers+1, ",", "10.0.0.%d"), "a.=" + many(MaxForwardServers, ",", "10.0.0.%d:53"), fmt.Sprintf(`"10.0.0.%d"`, MaxForwardServers)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var bad []string
			got := showForwards(parseForwards(tt.text, func(_, value string, err error) {
				if err == nil {
					t.Error("no error")
				}
				bad = append(bad, fmt.Sprintf("%q", value))
			}))
			if got != tt.want || strings.Join(bad, " ") != tt.bad {
				t.Errorf("got %s, bad %s\nwant %s, bad %s", got, bad, tt.want, tt.bad)
			}
		})
	}
}

// What is said of a server names its zone.
func TestForwardReports(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"x.example=", `zone "x.example.": expected an IP address`},
		{"a=10.0.0.1;X.example=10.0.0.1,ns1.example", `zone "x.example.": expected an IP address`},
	} {
		var said []string
		parseForwards(tt.text, func(_, _ string, err error) { said = append(said, err.Error()) })
		if len(said) != 1 || !strings.HasPrefix(said[0], tt.want) {
			t.Errorf("%s: %q, want %q", tt.text, said, tt.want)
		}
	}
}

// forwardsFrom are the Forwards of rows.
func forwardsFrom(id origin.Network, texts ...string) *Forwards {
	var rows []ForwardRow
	for i, text := range texts {
		rows = append(rows, ForwardRow{fmt.Sprint("row ", i), text})
	}
	return NewForwards(id, rows, func(ForwardRow) names.Report { return func(string, string, error) {} })
}

func TestForwardsFind(t *testing.T) {
	f := forwardsFrom(origin.Network{1},
		"corp.example=192.0.2.1;deep.corp.example=192.0.2.2",
		"corp.example=192.0.2.9;other.example=192.0.2.3;10.in-addr.arpa=192.0.2.4")
	all := forwardsFrom(origin.Network{1}, ".=192.0.2.1;example=192.0.2.2")
	for _, tt := range []struct {
		f     *Forwards
		qname string
		qtype uint16
		want  string // the zone and who names it, "" for none
	}{
		{f, "corp.example.", dns.TypeA, "corp.example. row 0"},
		{f, "x.corp.example.", dns.TypeA, "corp.example. row 0"},
		{f, "x.y.corp.example.", dns.TypeA, "corp.example. row 0"},
		{f, "deep.corp.example.", dns.TypeSOA, "deep.corp.example. row 0"},
		{f, "x.deep.corp.example.", dns.TypeA, "deep.corp.example. row 0"},
		{f, "x.other.example.", dns.TypeA, "other.example. row 1"},
		{f, "1.0.0.10.in-addr.arpa.", dns.TypePTR, "10.in-addr.arpa. row 1"},
		{f, "xcorp.example.", dns.TypeA, ""},
		{f, `x\.corp.example.`, dns.TypeA, ""},
		{f, `x\..corp.example.`, dns.TypeA, "corp.example. row 0"},
		{f, "example.", dns.TypeA, ""},
		{f, ".", dns.TypeNS, ""},
		{f, "corp.example.", dns.TypeDS, ""},
		{f, "deep.corp.example.", dns.TypeDS, "corp.example. row 0"},
		{f, "x.corp.example.", dns.TypeDS, "corp.example. row 0"},
		{all, ".", dns.TypeNS, ". row 0"},
		{all, ".", dns.TypeDS, ""},
		{all, "org.", dns.TypeA, ". row 0"},
		{all, "example.", dns.TypeDS, ". row 0"},
		{all, "x.example.", dns.TypeDS, "example. row 0"},
		{nil, "corp.example.", dns.TypeA, ""},
	} {
		got := ""
		if z := tt.f.Find(tt.qname, tt.qtype); z != nil {
			got = z.Zone + " " + z.NamedBy
		}
		if got != tt.want {
			t.Errorf("%s %s: got %q, want %q", tt.qname, dns.TypeToString[tt.qtype], got, tt.want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { f.Find("a.b.c.d.e.example.org.", dns.TypeA) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// The key is another one for another network, zone or list of servers, and no other.
func TestForwardKey(t *testing.T) {
	seen := map[string]string{}
	for _, tt := range []struct {
		of    origin.Network
		texts []string
	}{
		{origin.Network{1}, []string{"a=192.0.2.1"}},
		{origin.Network{2}, []string{"a=192.0.2.1"}},
		{origin.Network{1}, []string{"b=192.0.2.1"}},
		{origin.Network{1}, []string{"a=192.0.2.2"}},
		{origin.Network{1}, []string{"a=192.0.2.1:5353"}},
		{origin.Network{1}, []string{"a=192.0.2.1,192.0.2.2"}},
		{origin.Network{1}, []string{"a=192.0.2.2,192.0.2.1"}},
		{origin.Network{1}, []string{"a=wrong"}},
	} {
		key := forwardsFrom(tt.of, tt.texts...).all[0].Key
		what := fmt.Sprint(tt)
		if before, ok := seen[key]; ok {
			t.Errorf("%s and %s have the same key %q", before, what, key)
		}
		seen[key] = what
	}
	a, b := forwardsFrom(origin.Network{1}, "a=192.0.2.1;c=192.0.2.9"), forwardsFrom(origin.Network{1}, "x=192.0.2.7", "A.=192.0.2.1")
	if a.zones["a."].Key != b.zones["a."].Key {
		t.Errorf("%q and %q", a.zones["a."].Key, b.zones["a."].Key)
	}
}

// FuzzParseForwards: what comes out of any text is canonical, within the limits, and reads as the
// same once more.
func FuzzParseForwards(f *testing.F) {
	for _, text := range []string{
		"corp.example=10.1.0.53,10.1.0.54:5353;other.example=[fd00::1]:53", ".=192.0.2.1", "a=;=b;;", "a=::ffff:1.2.3.4,fe80::1%x", `a\.b=1.2.3.4`, "ä=1.2.3.4",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all := parseForwards(text, func(string, string, error) {})
		if len(all) > MaxForwardZones {
			t.Errorf("%d zones", len(all))
		}
		for i, z := range all {
			if slices.ContainsFunc(all[:i], func(o *Forward) bool { return o.Zone == z.Zone }) || len(z.Servers) > MaxForwardServers {
				t.Errorf("%+v is there twice, or has too many servers", z)
			}
			if name, err := forwardZone(z.Zone); err != nil || name != z.Zone {
				t.Errorf("the zone %q is %q, %v", z.Zone, name, err)
			}
			for _, s := range z.Servers {
				if !s.IsValid() || s.Port() == 0 || s.Addr().Is4In6() || s.Addr().Zone() != "" {
					t.Errorf("server %v", s)
				}
			}
			if found := (&Forwards{zones: map[string]*Forward{z.Zone: z}}).Find(z.Zone, dns.TypeA); found != z {
				t.Errorf("the zone %q does not have its own name", z.Zone)
			}
		}
	})
}
