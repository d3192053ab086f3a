// SPDX-License-Identifier: Apache-2.0

package test

import (
	"encoding/json"
	"fmt"
	"os"
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

// rowsOf returns the addresses that the DNS rows have for a name, in the order of the UUIDs in Northbound.
func rowsOf(l *lab.Lab, name string) []string {
	rows := strings.Split(l.NBCTL("--format=csv", "--no-headings", "--data=json", "--columns=_uuid,records", "list", "DNS"), "\n")
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

// Of several rows with one name, the row with the lowest UUID in Northbound answers, whatever the order in which
// they come. This process reads Southbound, whose rows have other UUIDs before OVN 24.09.2.
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
