// SPDX-License-Identifier: Apache-2.0

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// nameQuestion is a question and its answer in short.
type nameQuestion struct{ name, qtype, want string }

// answersTo asks both resolver addresses; an answer has the name asked for.
func answersTo(t *testing.T, g *lab.Guest, questions ...nameQuestion) {
	t.Helper()
	for _, q := range questions {
		for _, resolver := range resolvers {
			r, err := exchange(within(t, wait), g, resolver, q.name, dns.StringToType[q.qtype])
			if err != nil || inShort(r) != q.want {
				t.Errorf("%s asks %s for %s %s: %v, want %s: %v", g.Name, resolver, q.name, q.qtype, r, q.want, err)
				continue
			}
			for _, rr := range r.Answer {
				if got := rr.Header().Name; got != q.name {
					t.Errorf("%s asks %s for %s: a record is of %s", g.Name, resolver, q.name, got)
				}
			}
		}
	}
}

// domains are those that a port may have, the one that counts first.
var domains = []string{"dhcp.test.", "config.test.", "ids.test.", "file.test."}

// TestDomainOrder takes one source of the domain away after the other.
func TestDomainOrder(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	vm := aclGuest(l, "red", 1, 1)
	dhcp := l.NBCTL("create", "DHCP_Options", "cidr=10.0.1.0/24", `options={domain_name="\"dhcp.test\"",lease_time="3600",router="10.0.1.1",server_id="10.0.1.1",server_mac="02:00:00:00:01:01"}`)
	l.NBCTL("set", "Logical_Switch_Port", vm.Port, "dhcpv4_options="+dhcp,
		"--", "set", "Logical_Switch", "red", "other_config:dns_domain=config.test", "external_ids:dns_domain=ids.test")
	l.Sync()
	s := serve(t, l, pipelineCorefile("", "northbound $NB\n        domain file.test", ""))

	check := func(t *testing.T, domain string) {
		t.Helper()
		for _, d := range domains {
			want := nxdomain
			if d == domain {
				want = "NOERROR 10.0.1.11"
			}
			answersTo(t, vm, nameQuestion{"vm1." + d, "A", want})
		}
		answersTo(t, vm,
			nameQuestion{"vm1.", "AAAA", "NOERROR fd00:1::11"},
			nameQuestion{reverseName("10.0.1.11"), "PTR", "NOERROR vm1." + domain})
		r, err := exchange(within(t, wait), vm, resolver4, "missing."+domain, dns.TypeA)
		if err != nil || r.Rcode != dns.RcodeNameError || len(r.Ns) != 1 || r.Ns[0].Header().Name != domain {
			t.Errorf("a name that %s has not: %v, want an SOA of the domain: %v", domain, r, err)
		}
	}
	t.Run("all", func(t *testing.T) { check(t, "dhcp.test.") })
	for _, step := range []struct {
		name, domain string
		change       []string
	}{
		{"no domain in the DHCP options", "config.test.", []string{"remove", "DHCP_Options", dhcp, "options", "domain_name"}},
		{"a domain in them again", "dhcp.test.", []string{"set", "DHCP_Options", dhcp, `options:domain_name="\"dhcp.test\""`}},
		{"a domain in them that is none", "config.test.", []string{"set", "DHCP_Options", dhcp, `options:domain_name="\"a..b\""`}},
		{"and a right one", "dhcp.test.", []string{"set", "DHCP_Options", dhcp, `options:domain_name="\"dhcp.test\""`}},
		{"no DHCP options", "config.test.", []string{"clear", "Logical_Switch_Port", vm.Port, "dhcpv4_options"}},
		{"none in the switch's other_config", "ids.test.", []string{"remove", "Logical_Switch", "red", "other_config", "dns_domain"}},
		{"none in its external_ids", "file.test.", []string{"remove", "Logical_Switch", "red", "external_ids", "dns_domain"}},
		{"one in its other_config alone", "config.test.", []string{"set", "Logical_Switch", "red", "other_config:dns_domain=config.test"}},
	} {
		t.Run(step.name, func(t *testing.T) {
			follows(t, vm, "vm1."+step.domain, dns.TypeA, "NOERROR 10.0.1.11", func() { l.NBCTL(step.change...) })
			check(t, step.domain)
		})
	}
	s.endWell()

	l.NBCTL("set", "Logical_Switch_Port", vm.Port, "dhcpv4_options="+dhcp)
	testOwnDomain(t, l, vm, dhcp)
}

// testOwnDomain has two more Corefiles for a guest whose domain is dhcp.test, on a
// switch whose domain is another: with resolver addresses, what is the guest's own
// is denied here, for 5 s; a server of the guest's choice is asked for it.
func testOwnDomain(t *testing.T, l *lab.Lab, vm *lab.Guest, dhcp string) {
	l.AddDNS(map[string]string{"db.prod.corp.example": "10.0.1.51"}, "red")
	l.Sync()
	// What another server says can be told by its data, or by its denial.
	records := []string{
		"dhcp.test. 60 IN TXT outside", "missing.dhcp.test. 60 IN A 192.0.2.1", "prod.corp.example. 60 IN A 192.0.2.1",
		"prod.corp.example. 60 IN MX 1 outside.", "www.config.test. 60 IN A 192.0.2.1",
	}
	const denied = "NXDOMAIN SOA test. 5" // by that server
	ask := func(t *testing.T, resolver string, q nameQuestion) {
		t.Helper()
		r, err := exchange(within(t, wait), vm, resolver, q.name, dns.StringToType[q.qtype])
		if err != nil {
			t.Errorf("%s %s: %v", q.name, q.qtype, err)
			return
		}
		got := inShort(r)
		for _, rr := range r.Ns {
			got += fmt.Sprintf(" %s %s %d", dns.TypeToString[rr.Header().Rrtype], rr.Header().Name, rr.Header().Ttl)
		}
		if got := serialOf.ReplaceAllString(got, "SERIAL 7200"); got != q.want {
			t.Errorf("%s is asked for %s %s: %s, want %s", resolver, q.name, q.qtype, got, q.want)
		}
	}
	const (
		fall  = "northbound $NB\n        domain file.test\n        fallthrough"
		nodat = "NOERROR SOA dhcp.test. 5"
	)

	t.Run("own domain", func(t *testing.T) {
		up := l.Upstream(records...)
		s := serve(t, l, pipelineCorefile("", fall, "cache\n    forward . "+up.Addr))
		own := []nameQuestion{
			{"missing.dhcp.test.", "A", "NXDOMAIN SOA dhcp.test. 5"},
			{"a.missing.dhcp.test.", "MX", "NXDOMAIN SOA dhcp.test. 5"},
			{"new.dhcp.test.", "A", "NXDOMAIN SOA dhcp.test. 5"},
			{"dhcp.test.", "A", nodat},
			{"dhcp.test.", "TXT", nodat},
			{"dhcp.test.", "SOA", "NOERROR ns.dns.dhcp.test. hostmaster.dhcp.test. SERIAL 7200 1800 86400 5"},
			{"DHCP.test.", "NS", "NOERROR ns.dns.dhcp.test."},
			{"prod.corp.example.", "A", "NOERROR SOA example. 5"},
			{"corp.example.", "AAAA", "NOERROR SOA example. 5"},
			{"test.", "A", "NOERROR SOA test. 5"},
			{reverseName("10.0.1.0")[2:], "PTR", "NOERROR SOA in-addr.arpa. 5"},
		}
		for _, resolver := range resolvers {
			for _, q := range own {
				ask(t, resolver, q)
			}
		}
		ask(t, resolver4, nameQuestion{"ns.dns.dhcp.test.", "A", "NOERROR " + resolver4})
		ask(t, resolver6, nameQuestion{"ns.dns.dhcp.test.", "AAAA", "NOERROR " + resolver6})
		if r := vm.Dig("+tcp", "@"+resolver6, "ns.dns.dhcp.test", "AAAA"); r.String() != "NOERROR "+resolver6 {
			t.Errorf("the server's address over TCP: %s\n%s", r, r.Out)
		}
		ask(t, resolver4, nameQuestion{"dhcp.test.", "AXFR", "REFUSED"})
		ask(t, resolver6, nameQuestion{"dhcp.test.", "IXFR", "REFUSED"})
		if r := vm.Dig("@"+resolver4, "dhcp.test", "axfr"); !strings.Contains(r.Out, "Transfer failed") || len(r.Answer) > 0 {
			t.Errorf("a transfer over TCP:\n%s", r.Out)
		}
		if asked := up.Asked(); len(asked) > 0 {
			t.Errorf("the upstream was asked %v", asked)
		}
		for _, q := range []nameQuestion{
			{"prod.corp.example.", "MX", "NOERROR 1 outside."},
			{"corp.example.", "DS", "NOERROR SOA example. 5"}, // its denial
			{"www.config.test.", "A", "NOERROR 192.0.2.1"},    // the switch's domain, but not this guest's
		} {
			before := up.Count(q.name)
			ask(t, resolver4, q)
			if up.Count(q.name) == before {
				t.Errorf("the upstream was not asked for %s %s", q.name, q.qtype)
			}
		}
		// A name that comes into being after it was asked for.
		follows(t, vm, "new.dhcp.test.", dns.TypeA, "NOERROR 10.0.1.61", func() {
			emptyPort(l, "red", "red-new", "02:00:00:00:01:61 10.0.1.61", "new", "dhcpv4_options="+dhcp)
		})
		s.endWell()
	})
	t.Run("own domain, of another server", func(t *testing.T) {
		peer := aclGuest(l, "red", 1, 2)
		l.Sync()
		const at = "10.0.1.12"
		peer.ServeDNS(at+":53", records...)
		s := serve(t, l, pipelineCorefile("address any", fall, "passthrough"))
		for _, q := range []nameQuestion{
			{"missing.dhcp.test.", "A", "NOERROR 192.0.2.1"},
			{"dhcp.test.", "TXT", `NOERROR "outside"`},
			{"dhcp.test.", "SOA", "NOERROR SOA test. 5"},
			{"prod.corp.example.", "A", "NOERROR 192.0.2.1"},
			{"another.dhcp.test.", "A", denied},
			{"new.dhcp.test.", "A", "NOERROR 10.0.1.61"},
		} {
			ask(t, at, q)
		}
		s.endWell()
	})
	t.Run("own domain, of another server, with forward", func(t *testing.T) {
		up := l.Upstream(records...)
		s := serve(t, l, pipelineCorefile("address any", fall, "cache\n    forward . "+up.Addr))
		for range 2 { // the second time from the cache
			for _, q := range []nameQuestion{
				{"missing.dhcp.test.", "A", "NOERROR 192.0.2.1"},
				{"prod.corp.example.", "A", "NOERROR 192.0.2.1"},
				{"another.dhcp.test.", "A", "NXDOMAIN SOA dhcp.test. 5"},
				{"dhcp.test.", "SOA", "NOERROR SOA test. 5"}, // it has other data
				{"corp.example.", "A", "NOERROR SOA example. 5"},
				{"another.test.", "A", denied},
			} {
				ask(t, "10.0.1.12", q)
			}
		}
		s.endWell()
	})
}

// serialOf is the serial of an SOA record of ours, which changes.
var serialOf = regexp.MustCompile(`\d+ 7200`)

// rowsOf are the addresses that the DNS rows of the Southbound database have for a
// name, in the order of the rows' UUIDs.
func rowsOf(l *lab.Lab, name string) []string {
	rows := strings.Split(l.SBCTL("--format=csv", "--no-headings", "--data=json", "--columns=_uuid,records", "list", "DNS"), "\n")
	slices.Sort(rows) // each begins with its UUID
	var all []string
	for _, row := range rows {
		// The JSON stands in CSV: its quotation marks are doubled.
		if _, rest, ok := strings.Cut(row, `[""`+name+`"",""`); ok {
			value, _, _ := strings.Cut(rest, `""`)
			all = append(all, value)
		}
	}
	return all
}

// Of several rows with one name that with the lowest UUID of the database that is
// read answers, whatever the order in which they come.
func TestOverlappingRows(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	vm := aclGuest(l, "red", 1, 1)
	emptyPort(l, "red", "red-db", "02:00:00:00:01:99 10.0.1.99", "db.internal")
	records := func(row int) map[string]string {
		return map[string]string{
			"db.internal":                       fmt.Sprintf("10.0.1.5%d", row),
			fmt.Sprintf("own-%d.internal", row): fmt.Sprintf("10.0.1.6%d", row),
			// Of a name the first row counts as a whole: another's IPv6 address
			// does not complete it.
			fmt.Sprintf("half-%d.internal", row%2): []string{"10.0.1.70", "fd00:1::70"}[row/2%2],
		}
	}
	const rows = 4
	var uuids []string
	for i := range rows {
		uuids = append(uuids, l.AddDNS(records(i), "red"))
	}
	l.Sync()
	s := serve(t, l, pipelineCorefile("", "domain cloud.internal", ""))
	reached := map[string]int{}
	for round := range 8 {
		order := rowsOf(l, "db.internal")
		if len(order) != rows {
			t.Fatalf("round %d: rows %q", round, order)
		}
		reached[order[0]]++
		l.Eventually("the answer of the first row", func() error {
			r, err := exchange(within(t, wait), vm, resolver4, "db.internal.", dns.TypeA)
			if err == nil && inShort(r) != "NOERROR "+order[0] {
				err = fmt.Errorf("%s, want %s", inShort(r), order[0])
			}
			return err
		})
		questions := []nameQuestion{{"db.internal.", "A", "NOERROR " + order[0]}, {"db.internal.", "AAAA", nodata},
			{reverseName("10.0.1.99"), "PTR", "NOERROR db.internal.cloud.internal."}}
		for i, address := range order {
			want := nxdomain // it is no address of the name
			if i == 0 {
				want = "NOERROR db.internal."
			}
			questions = append(questions, nameQuestion{reverseName(address), "PTR", want},
				nameQuestion{fmt.Sprintf("own-%d.internal.", i), "A", fmt.Sprintf("NOERROR 10.0.1.6%d", i)})
		}
		for i := range 2 {
			name := fmt.Sprintf("half-%d.internal", i)
			a, aaaa := "NOERROR 10.0.1.70", nodata
			if rowsOf(l, name)[0] != "10.0.1.70" {
				a, aaaa = nodata, "NOERROR fd00:1::70"
			}
			questions = append(questions, nameQuestion{name + ".", "A", a}, nameQuestion{name + ".", "AAAA", aaaa})
		}
		answersTo(t, vm, questions...)
		// Another process comes to the same.
		if round == 3 {
			s.endWell()
			s = serve(t, l, pipelineCorefile("", "domain cloud.internal", ""))
			answersTo(t, vm, questions...)
		}
		// One row after the other is made again, with another UUID.
		for i, old := range uuids {
			uuids[i] = l.AddDNS(records(i), "red")
			l.NBCTL("--wait=hv", "remove", "Logical_Switch", "red", "dns_records", old, "--", "destroy", "DNS", old)
		}
	}
	t.Logf("rows that came first: %v", reached)
	for len(uuids) > 0 {
		l.NBCTL("--wait=hv", "remove", "Logical_Switch", "red", "dns_records", uuids[0], "--", "destroy", "DNS", uuids[0])
		uuids = uuids[1:]
		// The port's name comes last.
		want := append(rowsOf(l, "db.internal"), "10.0.1.99")[0]
		l.Eventually("the answer of the next row", func() error {
			r, err := exchange(within(t, wait), vm, resolver6, "db.internal.", dns.TypeA)
			if err == nil && inShort(r) != "NOERROR "+want {
				err = fmt.Errorf("%s, want %s", inShort(r), want)
			}
			return err
		})
	}
	s.endWell()
}

// One row may serve many switches.
func TestSharedRow(t *testing.T) {
	t.Parallel()
	const switches = 40
	l := lab.New(t, lab.Options{})
	var all []string
	for i := range switches {
		all = append(all, fmt.Sprintf("net%d", i))
		l.AddSwitch(all[i])
	}
	row := l.AddDNS(map[string]string{"db.internal": "10.0.0.50", "*.apps.internal": "10.0.0.51"}, all...)
	var guests []*lab.Guest
	for _, sw := range []string{"net0", "net7", "net39"} {
		guests = append(guests, l.Node.AddGuest(lab.Guest{
			Name: sw + "-vm", Switch: sw, MAC: "02:00:00:00:00:11", Addrs: lab.Prefixes("10.0.0.11/24", "fd00:10::11/64"),
			Routes: []string{resolver4 + " dev eth0", resolver6 + " dev eth0"}, PortSecurity: true,
		}))
	}
	l.Sync()
	s := serve(t, l, pipelineCorefile("", "", ""))
	ask := func(t *testing.T, guests []*lab.Guest, questions ...nameQuestion) {
		t.Helper()
		for _, g := range guests {
			answersTo(t, g, questions...)
		}
	}
	ask(t, guests, nameQuestion{"db.internal.", "A", "NOERROR 10.0.0.50"}, nameQuestion{"www.apps.internal.", "A", "NOERROR 10.0.0.51"},
		nameQuestion{reverseName("10.0.0.50"), "PTR", "NOERROR db.internal."})
	// It is read once, and the switches without a guest here are not.
	s.reaches(1, "coredns_ovnhosts_rows", "kind", "dns")
	s.reaches(float64(len(guests)), "coredns_ovnhosts_rows", "kind", "networks")

	follows(t, guests[0], "db.internal.", dns.TypeA, "NOERROR 10.0.0.60", func() {
		l.NBCTL("set", "DNS", row, `records:db.internal="10.0.0.60"`)
	})
	ask(t, guests[1:], nameQuestion{"db.internal.", "A", "NOERROR 10.0.0.60"}, nameQuestion{reverseName("10.0.0.50"), "PTR", nxdomain})
	follows(t, guests[1], "db.internal.", dns.TypeA, nxdomain, func() {
		l.NBCTL("remove", "Logical_Switch", "net7", "dns_records", row)
	})
	ask(t, guests[1:2], nameQuestion{"www.apps.internal.", "A", nxdomain}, nameQuestion{reverseName("10.0.0.60"), "PTR", nxdomain})
	ask(t, []*lab.Guest{guests[0], guests[2]}, nameQuestion{"db.internal.", "A", "NOERROR 10.0.0.60"}, nameQuestion{"www.apps.internal.", "A", "NOERROR 10.0.0.51"})
	s.endWell()
}

// Names of all kinds: records of the switch red, with the questions below.
var oddRecords = map[string]string{
	"_ldap._tcp.internal":             "10.0.1.61",
	"with space.internal":             "10.0.1.62",
	`dot\.ted.internal`:               "10.0.1.63",
	"bücher.internal":                 "10.0.1.64",
	"xn--bcher-kva.internal":          "10.0.1.65",
	"ÜBER.internal":                   "10.0.1.66",
	"-1/2:3%41.internal":              "10.0.1.67",
	longLabel + ".internal":           "10.0.1.68",
	strings.TrimSuffix(longName, "."): "10.0.1.69",

	"*.apps.internal":        "10.0.1.81",
	"fixed.apps.internal":    "10.0.1.82",
	"deep.sub.apps.internal": "10.0.1.83",
}

// The longest of both (RFC 1035, section 2.3.4).
var (
	longLabel = strings.Repeat("a", 63)
	longName  = strings.Repeat(strings.Repeat("b", 49)+".", 5) + "cc."
)

var oddQuestions = []nameQuestion{
	{"_ldap._tcp.internal.", "A", "NOERROR 10.0.1.61"},
	{"_LDAP._tcp.internal.", "A", "NOERROR 10.0.1.61"},
	{"_tcp.internal.", "A", nodata},
	{`with\ space.internal.`, "A", "NOERROR 10.0.1.62"},
	{`With\ Space.internal.`, "A", "NOERROR 10.0.1.62"},
	{reverseName("10.0.1.62"), "PTR", `NOERROR with\ space.internal.`},
	{`dot\.ted.internal.`, "A", "NOERROR 10.0.1.63"},
	{"dot.ted.internal.", "A", nxdomain},
	{"ted.internal.", "A", nxdomain}, // nor does the name lie below that
	{reverseName("10.0.1.63"), "PTR", `NOERROR dot\.ted.internal.`},
	{`b\195\188cher.internal.`, "A", "NOERROR 10.0.1.64"},
	{`B\195\188CHER.internal.`, "A", "NOERROR 10.0.1.64"},
	{`b\195\156cher.internal.`, "A", nxdomain}, // the case of ASCII alone is one
	{reverseName("10.0.1.64"), "PTR", `NOERROR b\195\188cher.internal.`},
	{"xn--bcher-kva.internal.", "A", "NOERROR 10.0.1.65"},
	{"XN--Bcher-KVA.internal.", "A", "NOERROR 10.0.1.65"},
	{`\195\156ber.internal.`, "A", "NOERROR 10.0.1.66"},
	{`\195\188ber.internal.`, "A", nxdomain},
	{"-1/2:3%41.internal.", "A", "NOERROR 10.0.1.67"},
	{longLabel + ".internal.", "A", "NOERROR 10.0.1.68"},
	{longName, "A", "NOERROR 10.0.1.69"},
	{longName, "AAAA", nodata},
	{"web_1.", "A", "NOERROR 10.0.1.71"},
	{"web_1.cloud.internal.", "A", "NOERROR 10.0.1.71"},
	{`b\195\188ro.cloud.internal.`, "A", "NOERROR 10.0.1.72"},
	{reverseName("10.0.1.72"), "PTR", `NOERROR b\195\188ro.cloud.internal.`},
}

// wildQuestions are of the wildcard *.apps.internal (RFC 4592, section 2.2.1).
var wildQuestions = []nameQuestion{
	{"shop.apps.internal.", "A", "NOERROR 10.0.1.81"},
	{"Shop.APPS.internal.", "A", "NOERROR 10.0.1.81"},
	{"a.b.c.apps.internal.", "A", "NOERROR 10.0.1.81"},
	{`b\195\188ro.apps.internal.`, "A", "NOERROR 10.0.1.81"},
	{"shop.apps.internal.", "AAAA", nodata},
	{"shop.apps.internal.", "ANY", "NOERROR 10.0.1.81"},
	{"*.apps.internal.", "A", "NOERROR 10.0.1.81"},
	{reverseName("10.0.1.81"), "PTR", nxdomain},
	// Not above.
	{"apps.internal.", "A", nodata},
	{"internal.", "A", nodata},
	{"shop.internal.", "A", nxdomain},
	{"shopapps.internal.", "A", nxdomain},
	// Not where a name exists, nor below it.
	{"fixed.apps.internal.", "A", "NOERROR 10.0.1.82"},
	{"fixed.apps.internal.", "AAAA", nodata},
	{"shop.fixed.apps.internal.", "A", nxdomain},
	{"deep.sub.apps.internal.", "A", "NOERROR 10.0.1.83"},
	{"sub.apps.internal.", "A", nodata},
	{"shop.sub.apps.internal.", "A", nxdomain},
	{"shop.*.apps.internal.", "A", nxdomain},
	{"port.apps.internal.", "A", "NOERROR 10.0.1.73"},
	{"shop.port.apps.internal.", "A", nxdomain},
}

func TestNames(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	aclSwitch(l, "blue", 2)
	row := l.AddDNS(oddRecords, "red")
	emptyPort(l, "red", "red-web", "02:00:00:00:01:71 10.0.1.71", "web_1")
	emptyPort(l, "red", "red-office", "02:00:00:00:01:72 10.0.1.72", `"büro"`)
	emptyPort(l, "red", "red-port", "02:00:00:00:01:73 10.0.1.73", "port.apps.internal")
	vm, other := aclGuest(l, "red", 1, 1), aclGuest(l, "blue", 2, 1)
	l.Sync()
	s := serve(t, l, pipelineCorefile("", "domain cloud.internal", ""))

	t.Run("odd", func(t *testing.T) { answersTo(t, vm, oddQuestions...) })
	t.Run("wildcard", func(t *testing.T) {
		answersTo(t, vm, wildQuestions...)
		answersTo(t, other, nameQuestion{"shop.apps.internal.", "A", nxdomain})
		follows(t, vm, "shop.apps.internal.", dns.TypeA, "NOERROR 10.0.1.84", func() {
			l.NBCTL("set", "DNS", row, `records:shop.apps.internal="10.0.1.84"`)
		})
		answersTo(t, vm, nameQuestion{"cart.shop.apps.internal.", "A", nxdomain}, nameQuestion{"shop.apps.internal.", "AAAA", nodata},
			nameQuestion{"cart.apps.internal.", "A", "NOERROR 10.0.1.81"})
		follows(t, vm, "cart.shop.apps.internal.", dns.TypeA, "NOERROR 10.0.1.81", func() {
			l.NBCTL("remove", "DNS", row, "records", "shop.apps.internal")
		})
		answersTo(t, vm, wildQuestions...)
		follows(t, vm, "shop.apps.internal.", dns.TypeA, nxdomain, func() {
			l.NBCTL("remove", "DNS", row, "records", `"*.apps.internal"`)
		})
		answersTo(t, vm, nameQuestion{"fixed.apps.internal.", "A", "NOERROR 10.0.1.82"})
	})
	s.endWell()
}

// What cannot be read is left out, told once and counted, whatever else changes.
func TestBadRow(t *testing.T) {
	t.Parallel()
	records := map[string]string{
		"good.internal":                    "10.0.1.91",
		"half.internal":                    "10.0.1.92 here/24 fd00:1::92",
		"none.internal":                    "10.0.1.256",
		"a..b":                             "10.0.1.93",
		longLabel + "a.internal":           "10.0.1.94",
		"95.1.0.10.in-addr.arpa":           "10.0.1.95",
		"96.1.0.10.in-addr.arpa":           "first.internal a..c second.internal",
		strings.Repeat("long.", 60) + "of": "10.0.1.97",
	}
	lines := []string{`here/24`, `10\.0\.1\.256`, `"a\.\.b" skipped: it is no domain name`, longLabel + "a", `10\.0\.1\.95`, `a\.\.c`, `long\.long`}
	questions := []nameQuestion{
		{"good.internal.", "A", "NOERROR 10.0.1.91"},
		{"half.internal.", "ANY", "NOERROR 10.0.1.92 fd00:1::92"},
		{"none.internal.", "A", nxdomain},
		{reverseName("10.0.1.95"), "PTR", nxdomain},
		{reverseName("10.0.1.96"), "PTR", "NOERROR first.internal. second.internal."},
	}
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	vm := aclGuest(l, "red", 1, 1)
	row := l.AddDNS(records, "red")
	l.Sync()
	s := serve(t, l, pipelineCorefile("", "", ""))
	check := func() {
		t.Helper()
		answersTo(t, vm, questions...)
		for _, line := range lines {
			s.log(`WARNING.* .*` + line)
		}
		s.reaches(float64(len(lines)), "coredns_ovnhosts_bad_values_total")
		if got := strings.Count(s.Log(), "skipped"); got != len(lines) {
			t.Errorf("%d values are told of in the log, want %d\n%s", got, len(lines), s.Log())
		}
	}
	check()
	follows(t, vm, "good.internal.", dns.TypeA, "NOERROR 10.0.1.98", func() {
		l.NBCTL("set", "DNS", row, `records:good.internal="10.0.1.98"`)
	})
	questions[0].want = "NOERROR 10.0.1.98"
	check()
	// The same again, beside an address that is new.
	follows(t, vm, "half.internal.", dns.TypeA, "NOERROR 10.0.1.99", func() {
		l.NBCTL("set", "DNS", row, `records:half.internal="here/24 10.0.1.99 fd00:1::92"`)
	})
	questions[1].want = "NOERROR 10.0.1.99 fd00:1::92"
	check()
	l.Restart("sb")
	s.log(`(?s)(OVN_Southbound: in sync with.*){2}`)
	check()
	s.endWell()
}

// addOptions converts the running Southbound database to its schema with
// DNS.options; it is false if that is there.
func addOptions(t *testing.T, l *lab.Lab) bool {
	t.Helper()
	b, err := os.ReadFile("/usr/share/ovn/ovn-sb.ovsschema")
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(b, &schema); err != nil {
		t.Fatal(err)
	}
	delete(schema, "cksum")
	columns := schema["tables"].(map[string]any)["DNS"].(map[string]any)["columns"].(map[string]any)
	if columns["options"] != nil {
		return false
	}
	columns["options"] = map[string]any{"type": map[string]any{"key": "string", "value": "string", "min": 0, "max": "unlimited"}}
	if b, err = json.Marshal(schema); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Node.Exec(within(t, wait), "ovsdb-client", "convert", l.SB, l.WriteFile("schema", string(b))); err != nil {
		t.Fatal(err)
	}
	l.Sync()
	return true
}

// ownRow sets options:ovn-owned of a DNS row. An ovn-northd before 24.03 neither
// knows that column nor touches it.
func ownRow(t *testing.T, l *lab.Lab, row string) {
	t.Helper()
	if !addOptions(t, l) {
		l.NBCTL("--wait=sb", "set", "DNS", row, "options:ovn-owned=true")
		return
	}
	where := `"where":[["_uuid","==",["uuid","` + l.SouthboundDNS(row) + `"]]]`
	out, err := l.Node.Exec(within(t, wait), "ovsdb-client", "transact", l.SB,
		`["OVN_Southbound",{"op":"update","table":"DNS",`+where+`,"row":{"options":["map",[["ovn-owned","true"]]]}}]`)
	if err != nil || strings.TrimSpace(out) != `[{"count":1}]` {
		t.Fatalf("ovn-owned: %s: %v", out, err)
	}
}

// A query for a name of a row that OVN owns never leaves the node, whatever the
// type.
func TestOVNOwned(t *testing.T) {
	t.Parallel()
	n := newOVNNetwork(t)
	row := n.AddDNS(map[string]string{
		"owned.example": "10.0.0.90", "Owned6.example": "fd00:1::90", "90.0.0.10.in-addr.arpa": "owned.example", "*.apps.example": "10.0.0.91",
		"broken.example": "10.0.0.256",
	}, "left")
	n.Sync()
	ownRow(t, n.Lab, row)
	up := n.Upstream("www.example. 60 IN A 192.0.2.1", "www.example. 60 IN MX 1 mx.example.")
	const nodataOf = "NOERROR aa SOA example. 5"
	questions := []nameQuestion{
		{"owned.example.", "A", "NOERROR aa 30 10.0.0.90"},
		{"OWNED.example.", "A", "NOERROR aa 30 10.0.0.90"},
		{"owned.example.", "AAAA", nodataOf},
		{"owned.example.", "MX", nodataOf},
		{"owned.example.", "NS", nodataOf},
		{"owned.example.", "HTTPS", nodataOf},
		{"owned6.example.", "A", nodataOf},
		{"owned6.example.", "ANY", "NOERROR aa 30 fd00:1::90"},
		{"shop.apps.example.", "A", "NOERROR aa 30 10.0.0.91"},
		{"shop.apps.example.", "AAAA", nodataOf},
		{reverseName("10.0.0.90"), "PTR", "NOERROR aa 30 owned.example."},
		{reverseName("10.0.0.90"), "TXT", "NOERROR aa SOA in-addr.arpa. 5"},
		{"owned.example.", "IXFR", "REFUSED"},
		{"Owned.example.", "AXFR", "REFUSED"},
		{"owned.example.", "MAILB", "NOTIMP"},
		{"shop.apps.example.", "MAILA", "NOTIMP"},
		{"owned.example.", "TKEY", "FORMERR"},
	}
	ask := func(t *testing.T, to, qname, qtype string) string {
		return n.server.outcome(n.vm1, pack(t, new(dns.Msg).SetQuestion(qname, dns.StringToType[qtype])), to, true)
	}
	t.Run("OVN", func(t *testing.T) {
		nodata := passes
		if n.Release().DNSRefusesOwned() {
			nodata = "REFUSED"
		}
		for _, q := range []nameQuestion{
			{"owned.example.", "A", "NOERROR 3600 10.0.0.90"}, {"owned.example.", "AAAA", nodata}, {"owned.example.", "MX", passes},
		} {
			if got := ask(t, "10.0.0.53:53", q.name, q.qtype); got != q.want {
				t.Errorf("%s %s: %s, want %s", q.name, q.qtype, got, q.want)
			}
		}
	})
	for _, mode := range []struct{ name, corefile, to, other, transfer string }{
		{"hijack", pipelineCorefile("address any", "fallthrough", "passthrough"), "10.0.0.53:53", passes, passes},
		{"service", pipelineCorefile("", "fallthrough", "forward . "+up.Addr), resolver4 + ":53", "NOERROR aa 60 192.0.2.1", "REFUSED"},
	} {
		t.Run(mode.name, func(t *testing.T) {
			s := serve(t, n.Lab, mode.corefile)
			for _, q := range questions {
				if got := ask(t, mode.to, q.name, q.qtype); got != q.want {
					t.Errorf("%s %s: %s, want %s", q.name, q.qtype, got, q.want)
				}
			}
			t.Run("a record that cannot be read", func(t *testing.T) {
				if got := ask(t, mode.to, "broken.example.", "A"); got != nodataOf {
					t.Errorf("%s, want %s", got, nodataOf)
				}
			})
			if got := ask(t, mode.to, "www.example.", "A"); got != mode.other {
				t.Errorf("another name: %s, want %s", got, mode.other)
			}
			if got := ask(t, mode.to, "www.example.", "AXFR"); got != mode.transfer {
				t.Errorf("transfer of another name: %s, want %s", got, mode.transfer)
			}
			s.endWell()
		})
	}
	for _, q := range up.Asked() {
		if q.Name != "www.example." {
			t.Errorf("the upstream was asked for %s", q.Name)
		}
	}
}

func TestThousandRecords(t *testing.T) {
	t.Parallel()
	const count = 1000
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	vm := aclGuest(l, "red", 1, 1)
	address := func(i int) string { return fmt.Sprintf("10.1.%d.%d", i/250, i%250+1) }
	name := func(i int) string { return fmt.Sprintf("host-%d.internal.", i) }
	records := map[string]string{}
	for i := range count {
		records[strings.TrimSuffix(name(i), ".")] = address(i)
	}
	row := l.AddDNS(records, "red")
	l.Sync()
	s := serve(t, l, pipelineCorefile("", "", ""))
	all := func(changed map[string]string) {
		t.Helper()
		for i := range count {
			ctx := within(t, wait)
			want := "NOERROR " + address(i)
			if c := changed[name(i)]; c != "" {
				want = c
			}
			r, err := exchange(ctx, vm, resolvers[i%2], name(i), dns.TypeA)
			if err != nil || inShort(r) != want {
				t.Fatalf("%s: %v, want %s: %v", name(i), r, want, err)
			}
		}
	}
	all(nil)
	s.reaches(count+1, "coredns_ovnhosts_rows", "kind", "names") // and the guest's
	follows(t, vm, name(500), dns.TypeA, "NOERROR 10.9.9.9", func() {
		l.NBCTL("set", "DNS", row, `records:host-500.internal="10.9.9.9"`)
	})
	answersTo(t, vm, nameQuestion{reverseName("10.9.9.9"), "PTR", "NOERROR " + name(500)}, nameQuestion{reverseName(address(500)), "PTR", nxdomain})
	follows(t, vm, name(999), dns.TypeA, nxdomain, func() { l.NBCTL("remove", "DNS", row, "records", "host-999.internal") })
	all(map[string]string{name(500): "NOERROR 10.9.9.9", name(999): nxdomain})
	s.endWell()
}
