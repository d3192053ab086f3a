// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/test/lab"
)

// nsdCase is a part of the zone example. that is served twice: by NSD from a zone file, and by ovnhosts from a DNS row.
type nsdCase struct {
	// name says what the case is about. The bug reports in it are of the list of Ferret (dns-groot/Ferret), which
	// finds such zones by symbolic execution, and of issues of CoreDNS.
	name string
	// records are in the notation of zone files, separated by semicolons. Names are relative to the
	// origin of the case; @ is the origin.
	records string
	// questions are pairs of name and type, separated by semicolons.
	questions string
}

// nsdCases has the cases of wildcards, aliases and empty non-terminals. A DNS row has no DNAME and no NS records, so
// these cases of the list have no row here: DNAME loops (CoreDNS #4378, NSD #151, Knot #714, BIND #2540), sibling glue
// (CoreDNS #4377, BIND #2384), records below a delegation (NSD #174, Knot #713, YADIFA #12, MaraDNS).
var nsdCases = []nsdCase{
	{
		"the apex exists without the type, CoreDNS #4374", "",
		"example. A; example. TXT; example. NS; example. SOA; example. ANY; nosuch A",
	},
	{
		"the target of an alias does not exist, CoreDNS #4288, YADIFA #11", "b.c CNAME c.c; c.c CNAME d.c",
		"b.c A; b.c CNAME; b.c ANY; c.c A; c A; d.c A",
	},
	{
		"loops of aliases, CoreDNS #4378, Trust-DNS #1283", "a CNAME b; b CNAME a; *.foo CNAME bar.foo; self CNAME self",
		"a A; b TXT; a CNAME; x.foo A; x.foo CNAME; bar.foo A; self A; self CNAME",
	},
	{
		"a synthesized alias without a target, CoreDNS #4341, BIND #2284, NSD #140, Knot !1217", "foo CNAME bar; *.code CNAME test",
		"foo A; foo CNAME; a.code A; a.code CNAME; a.code ANY; a.b.code CNAME; code A",
	},
	{
		"a synthesized alias is the answer to CNAME, CoreDNS #4398, PowerDNS #9886", "*.w CNAME ww.w; ww.w CNAME ww.outside.; test CNAME ww.w",
		"test.w CNAME; foo.w CNAME; foo.w A; test CNAME; test A; ww.w A; ww.w CNAME",
	},
	{
		"a wildcard that is an empty non-terminal, CoreDNS #4256, #8386", "f.*.e A 192.0.2.2; t.e A 192.0.2.1",
		"something.e A; something.e TXT; f.something.e A; f.*.e A; *.e A; x.*.e A; t.e A; x.t.e A; e A",
	},
	{
		"a name below a closer name, CoreDNS #4290", "*.d A 192.0.2.1; r.c.d A 192.0.2.2",
		"something.r.c.d A; something.c.d A; c.d A; something.d A; x.something.d A; d A",
	},
	{
		"a name below a closer empty non-terminal, CoreDNS #8223", "*.w A 192.0.2.53; real.deeper.w A 192.0.2.54",
		"nonexistent.deeper.w A; deeper.w A; other.w A; a.b.c.w A",
	},
	{
		"a wildcard has more labels, Trust-DNS #1342", "*.w A 192.0.2.1; *.w TXT any",
		"a.w A; a.b.w A; a.b.c.d.w TXT; a.w MX; *.w A; a.*.w A",
	},
	{
		"an asterisk in the target, NSD #152", "a CNAME *.w; *.w TXT one; b CNAME *.nosuch; c CNAME x.*.w",
		"a A; a TXT; a CNAME; b A; c TXT; *.w TXT; x.*.w TXT",
	},
	{
		"an asterisk in the middle and twice", "a.*.m A 192.0.2.1; *.*.n A 192.0.2.2; **.o A 192.0.2.3; x*.o A 192.0.2.4; *x.o A 192.0.2.5",
		"a.b.m A; b.m A; *.m A; b.*.n A; *.*.n A; b.c.n A; c.n A; b.o A; x*.o A; *x.o A; xy.o A; **.o A",
	},
	{
		"a chain, YADIFA #10", "a CNAME b; b CNAME c; c CNAME d; d A 192.0.2.1; d TXT end",
		"a A; a TXT; a MX; a ANY; b A; d A",
	},
	{
		"a chain of eight aliases and one of nine", "0 CNAME 1; 1 CNAME 2; 2 CNAME 3; 3 CNAME 4; 4 CNAME 5; 5 CNAME 6; 6 CNAME 7; 7 CNAME 8; 8 CNAME 9; 9 A 192.0.2.9",
		"1 A; 1 TXT; 0 A; 0 CNAME",
	},
	{
		"an alias to a wildcard, and by way of one", "a CNAME x.w; *.w CNAME b; b A 192.0.2.1; *.v A 192.0.2.2; c CNAME x.v",
		"a A; a TXT; x.w A; c A; c TXT",
	},
	{
		"an alias to the apex, CoreDNS #6630", "a CNAME example.",
		"a A; a NS; a SOA; a CNAME",
	},
	{
		"addresses of targets behind an alias, CoreDNS #6628", "a CNAME s; s SRV 10 50 7890 t; s MX 10 t; s MX 20 u; t A 192.0.2.1; t AAAA 2001:db8::1; u A 192.0.2.2",
		"a SRV; s SRV; a MX; s MX; t ANY",
	},
	{
		"the target of MX is an alias, a wildcard or outside", "a MX 10 b; b CNAME c; c A 192.0.2.1; d MX 10 x.w; *.w A 192.0.2.2; e MX 10 mx.outside.; f MX 10 nosuch",
		"a MX; d MX; e MX; f MX",
	},
	{
		"an alias to an outside name", "a CNAME www.outside.; *.w CNAME x.outside.; b CNAME a",
		"a A; a CNAME; q.w A; b TXT; q.w ANY",
	},
	{
		"empty non-terminals", "a.b.c.d TXT deep",
		"d TXT; c.d TXT; b.c.d A; a.b.c.d TXT; a.b.c.d A; x.c.d TXT; x.a.b.c.d TXT",
	},
	{
		"all types of a name", `a A 192.0.2.1; a A 192.0.2.2; a AAAA 2001:db8::1; a TXT one two; a TXT three; a MX 10 b; a SRV 1 2 3 b`,
		"a A; a AAAA; a TXT; a MX; a SRV; a ANY; a CNAME; a HTTPS; a NS; a SOA; a DS; a PTR; a HINFO; a TYPE65280",
	},
	{
		"labels with odd bytes", `a\.b A 192.0.2.1; a\032b A 192.0.2.2; \255 TXT high; x CNAME a\.b; \*.q A 192.0.2.3; \000 TXT zero`,
		`a\.b A; a.b A; b A; a\032b A; \255 TXT; x A; \*.q A; y.q A; \000 TXT`,
	},
	{"upper case", "UPPER A 192.0.2.1; *.Wild CNAME Upper", "upper A; UPPER A; x.wild A; X.WILD CNAME"},
	{"a question for an address in a record's name", "4.3.2.1 A 192.0.2.1", "4.3.2.1 A; 3.2.1 PTR; 2.1 A; 5.3.2.1 A"},
}

// nsdDifferences are the reasons for which an answer may differ from NSD's. Each must be needed.
var nsdDifferences = []struct {
	reason string
	is     func(qtype uint16, nsd, ours nsdAnswer) bool
}{
	{
		"A loop of aliases and a chain of more than eight are SERVFAIL. NSD answers NOERROR with the aliases that it has followed.",
		func(_ uint16, nsd, ours nsdAnswer) bool {
			return ours.status == "SERVFAIL" && nsd.status == "NOERROR aa" && nsd.isEndless()
		},
	},
	{
		"ANY has all records of the name. NSD answers with those of one type (RFC 8482, section 4.1).",
		func(qtype uint16, nsd, ours nsdAnswer) bool {
			return qtype == dns.TypeANY && nsd.status == ours.status && len(nsd.answer) < len(ours.answer) && slices.Equal(nsd.answer, ours.answer[:len(nsd.answer)])
		},
	},
}

// nsdServer is the name server of the zone.
const nsdServer = "ns.dns.example."

// nsdAnswer is an answer in words.
type nsdAnswer struct {
	status                        string
	answer, authority, additional []string
}

func (a nsdAnswer) String() string {
	return fmt.Sprintf("%s\n    answer %s\n    authority %s\n    additional %s", a.status,
		strings.Join(a.answer, " | "), strings.Join(a.authority, " | "), strings.Join(a.additional, " | "))
}

// isEndless reports whether the answer has aliases alone, the last of which leads to an owner of the answer, or whether
// it has more aliases than ovnhosts follows.
func (a nsdAnswer) isEndless() bool {
	aliases, owners, target := 0, map[string]bool{}, ""
	for _, line := range a.answer {
		words := strings.Fields(line)
		owners[words[0]] = true
		if words[3] == "CNAME" {
			aliases, target = aliases+1, words[4]
		}
	}
	return aliases > 8 || aliases == len(a.answer) && owners[target]
}

// newNSDAnswer puts a message into words. Names are in lower case, as NSD returns the case of the zone and ovnhosts the
// case of the question. NS records in the authority section are optional in a positive answer and left out, with the
// address of the name server.
func newNSDAnswer(code int, m *dns.Msg) nsdAnswer {
	if m == nil {
		return nsdAnswer{status: dns.RcodeToString[code]}
	}
	a := nsdAnswer{status: dns.RcodeToString[m.Rcode]}
	if m.Authoritative {
		a.status += " aa"
	}
	for _, rr := range m.Answer {
		a.answer = append(a.answer, nsdLine(rr))
	}
	withNS := false
	for _, rr := range m.Ns {
		if rr.Header().Rrtype == dns.TypeNS && len(m.Answer) > 0 {
			withNS = true
			continue
		}
		a.authority = append(a.authority, nsdLine(rr))
	}
	for _, rr := range m.Extra {
		if withNS && rr.Header().Name == nsdServer {
			continue
		}
		a.additional = append(a.additional, nsdLine(rr))
	}
	slices.Sort(a.additional)
	return a
}

// nsdLine is a record in words, an SOA record without its serial.
func nsdLine(rr dns.RR) string {
	if soa, ok := rr.(*dns.SOA); ok {
		soa.Serial = 0
	}
	text := strings.Join(strings.Fields(rr.String()), " ")
	if rr.Header().Rrtype != dns.TypeTXT {
		text = strings.ToLower(text)
		for _, word := range []string{"in", dns.TypeToString[rr.Header().Rrtype]} {
			text = strings.Replace(text, " "+strings.ToLower(word)+" ", " "+strings.ToUpper(word)+" ", 1)
		}
	}
	return text
}

// nsdQuestion is a question of a case.
type nsdQuestion struct {
	of    string // the case
	qname string
	qtype uint16
}

// nsdZone is the zone of all cases.
type nsdZone struct {
	records   [][]dns.RR // of each case
	questions []nsdQuestion
}

// add adds a case. All its names are below its origin, such as c1.example.
func (z *nsdZone) add(t *testing.T, c nsdCase) {
	t.Helper()
	origin := fmt.Sprintf("c%d.example.", len(z.records))
	var records []dns.RR
	for record := range strings.SplitSeq(c.records, ";") {
		owner, data, _ := strings.Cut(strings.TrimSpace(record), " ")
		if owner == "" {
			continue
		}
		p := dns.NewZoneParser(strings.NewReader(owner+" 42 IN "+data+"\n"), origin, "")
		rr, ok := p.Next()
		if !ok {
			t.Fatalf("%s: %q: %v", c.name, record, p.Err())
		}
		records = append(records, rr)
	}
	z.records = append(z.records, records)
	for question := range strings.SplitSeq(c.questions, ";") {
		qname, qtype, _ := strings.Cut(strings.TrimSpace(question), " ")
		if qname = strings.TrimSuffix(qname, "@"); !dns.IsFqdn(qname) {
			qname = strings.TrimPrefix(qname+"."+origin, ".")
		}
		code, ok := dns.StringToType[qtype]
		if !ok {
			if _, err := fmt.Sscanf(qtype, "TYPE%d", &code); err != nil {
				t.Fatalf("%s: %q: %v", c.name, question, err)
			}
		}
		z.questions = append(z.questions, nsdQuestion{c.name + ": " + c.records, qname, code})
	}
}

// addRandom adds a case of a few names at, above, below and beside each other, and asks for each of them and for names
// that do not exist.
func (z *nsdZone) addRandom(t *testing.T, rng *rand.Rand) {
	t.Helper()
	owners := []string{"a", "b", "a.a", "b.a", "*", "*.a", "a.*", "*.*", "b.*.a", "*.b", "a.b.a", "*.b.a"}
	targets := append([]string{"nosuch", "x.outside.", "c.a", "c.c", "@"}, owners...)
	used := map[string]string{} // the type of a name's records: an alias stands alone
	var records []string
	for range 1 + rng.IntN(5) {
		owner, data := owners[rng.IntN(len(owners))], ""
		switch rng.IntN(3) {
		case 0:
			data = fmt.Sprintf("A 192.0.2.%d", rng.IntN(256))
		case 1:
			data = "TXT " + owner
		default:
			data = "CNAME " + targets[rng.IntN(len(targets))]
		}
		kind, _, _ := strings.Cut(data, " ")
		if used[owner] != "" && (kind == "CNAME" || used[owner] == "CNAME" || strings.Contains(used[owner], kind)) {
			continue
		}
		used[owner] += kind
		records = append(records, owner+" "+data)
	}
	var questions []string
	for _, name := range append([]string{"@", "c", "c.a", "c.b.a", "c.c", "c.*", "a.c", "c.b", "b.c.a"}, owners...) {
		for _, qtype := range []string{"A", "TXT", "CNAME", "ANY"} {
			questions = append(questions, name+" "+qtype)
		}
	}
	z.add(t, nsdCase{"random", strings.Join(records, ";"), strings.Join(questions, ";")})
}

// file is the zone file. Its apex has what ovnhosts gives the apex of the guest's own domain.
func (z *nsdZone) file() string {
	var b strings.Builder
	b.WriteString("example. 42 IN SOA ns.dns.example. hostmaster.example. 0 7200 1800 86400 5\nexample. 42 IN NS ns.dns.example.\nns.dns.example. 42 IN A 127.0.0.1\n")
	for _, records := range z.records {
		for _, rr := range records {
			b.WriteString(rr.String() + "\n")
		}
	}
	return b.String()
}

// rows are the operations that insert a DNS row for each case and add the rows to the switch red.
func (z *nsdZone) rows() (operations []any) {
	var all []any
	for i, records := range z.records {
		columns := map[string]map[string][]string{"records": {}, "external_ids": {}}
		for _, rr := range records {
			column, key := "external_ids", strings.TrimSuffix(rr.Header().Name, ".")
			switch rr.Header().Rrtype {
			case dns.TypeA, dns.TypeAAAA:
				column = "records"
			default:
				key = "dns-" + strings.ToLower(dns.TypeToString[rr.Header().Rrtype]) + "/" + key
			}
			columns[column][key] = append(columns[column][key], testkit.Data([]dns.RR{rr})...)
		}
		row := object{}
		for column, separator := range map[string]string{"records": " ", "external_ids": "\n"} {
			var kv []string
			for key, values := range columns[column] {
				kv = append(kv, key, strings.Join(values, separator))
			}
			row[column] = pairs(kv...)
		}
		id := fmt.Sprintf("case%d", i)
		operations = append(operations, insert("DNS", id, row))
		all = append(all, named(id))
	}
	return append(operations, object{
		"op": "mutate", "table": "Logical_Switch", "where": []any{[]any{"name", "==", "red"}},
		"mutations": []any{[]any{"dns_records", "insert", set(all...)}},
	})
}

// startNSD starts NSD with the zone on a port of loopback, and returns its address.
func startNSD(t *testing.T, zone string) string {
	t.Helper()
	program := "/usr/sbin/nsd"
	if _, err := os.Stat(program); err != nil {
		lab.Lack(t, "there is no NSD: %v", err)
	}
	dir, address := t.TempDir(), testkit.FreeAddress(t)
	conf := fmt.Sprintf(`server:
	ip-address: %s
	username: ""
	chroot: ""
	zonesdir: %q
	database: ""
	pidfile: ""
	zonelistfile: %q
	xfrdfile: ""
	xfrdir: %q
	cookie-secret-file: ""
	refuse-any: no
	tcp-query-count: 0
	verbosity: 1
remote-control:
	control-enable: no
zone:
	name: example.
	zonefile: zone
`, strings.Replace(address, ":", "@", 1), dir, filepath.Join(dir, "zonelist"), dir)
	for name, text := range map[string]string{"zone": zone, "nsd.conf": conf} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nsd, err := testkit.StartDaemon(exec.Command(program, "-d", "-c", filepath.Join(dir, "nsd.conf")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nsd.Kill)
	testkit.Eventually(t, "NSD answers", func() error {
		select {
		case <-nsd.Ended():
			t.Fatalf("NSD has ended:\n%s", nsd.Output.String())
		default:
		}
		c := dns.Client{Net: "tcp"}
		m, _, err := c.Exchange(new(dns.Msg).SetQuestion("example.", dns.TypeSOA), address)
		if err == nil && m.Rcode != dns.RcodeSuccess {
			t.Fatalf("NSD has not loaded the zone:\n%s", nsd.Output.String())
		}
		return err
	})
	return address
}

// TestAsNSD asks NSD and ovnhosts the same questions. Both have the same records.
func TestAsNSD(t *testing.T) {
	const randomCases = 100
	zone := new(nsdZone)
	for _, c := range nsdCases {
		zone.add(t, c)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range randomCases {
		zone.addRandom(t, rng)
	}
	conn, err := dns.DialTimeout("tcp", startNSD(t, zone.file()), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s := startNorthbound(t)
	s.Transact(t, "OVN_Northbound", zone.rows()...)
	h := openFrom(t, s, "red", " domain example\n ttl 42")
	h.Zones = []string{"example."}
	awaitRead(t, h)

	reasons, outcomes := map[string]int{}, map[string]int{}
	for _, q := range zone.questions {
		nsd, ours := q.askBoth(t, conn, h)
		outcomes[nsd.status]++
		if nsd.String() == ours.String() {
			continue
		}
		reason := nsdReason(q.qtype, nsd, ours)
		if reason == "" {
			t.Errorf("%s\n  %s %s\n  NSD: %s\n  ovnhosts: %s", q.of, q.qname, dns.Type(q.qtype), nsd, ours)
		}
		reasons[reason]++
	}
	t.Logf("%d questions, outcomes %v, differences %v", len(zone.questions), outcomes, reasons)
	if len(outcomes) < 2 {
		t.Errorf("outcomes: %v", slices.Sorted(maps.Keys(outcomes)))
	}
	for _, d := range nsdDifferences {
		if reasons[d.reason] == 0 {
			t.Errorf("no answer differs for the reason %q", d.reason)
		}
	}
}

// askBoth asks NSD and ovnhosts. ovnhosts gets the names as they come from the wire: a zone file has other escapes.
func (q nsdQuestion) askBoth(t *testing.T, conn *dns.Conn, h *Handler) (nsd, ours nsdAnswer) {
	t.Helper()
	b, err := new(dns.Msg).SetQuestion(q.qname, q.qtype).Pack()
	if err != nil {
		t.Fatalf("%s: %v", q.qname, err)
	}
	r := new(dns.Msg)
	if err := r.Unpack(b); err != nil {
		t.Fatalf("%s: %v", q.qname, err)
	}
	m, _, err := new(dns.Client).ExchangeWithConn(r, conn)
	if err != nil {
		t.Fatalf("%s: NSD: %v", q.qname, err)
	}
	w := dnstest.NewRecorder(&test.ResponseWriter{})
	code, err := h.ServeDNS(chain(t, t.Context(), h), w, r)
	if err != nil {
		t.Errorf("%s: %v", q.qname, err)
	}
	return newNSDAnswer(dns.RcodeSuccess, m), newNSDAnswer(code, w.Msg)
}

// nsdReason returns the reason for which two answers may differ, "" for none.
func nsdReason(qtype uint16, nsd, ours nsdAnswer) string {
	for _, d := range nsdDifferences {
		if d.is(qtype, nsd, ours) {
			return d.reason
		}
	}
	return ""
}
