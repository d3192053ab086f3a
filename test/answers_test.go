// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// answerRecords are the records of the switch red.
var answerRecords = map[string]string{
	"v4.internal":               "10.0.1.41",
	"v6.internal":               "fd00:1::42",
	"two.internal":              "10.0.1.43 10.0.1.44 fd00:1::43 fd00:1::44",
	"MiXeD.Internal":            "10.0.1.45",
	"comma.internal":            "10.0.1.46,10.0.1.47,fd00:1::46,fd00:1::47",
	"mixed-separators.internal": "10.0.1.48, 10.0.1.49 fd00:1::48 ,fd00:1::49",
	"bad.internal":              "10.0.1.50 10.0.1.500 fd00:1::50 fd00::1::2 10.0.1.51",
	"hopeless.internal":         "nonsense",
	"under.cloud.internal":      "10.0.1.52",

	// Reverse names of their own come before what the addresses say.
	"pointed.internal":                        "10.0.1.60 fd00:1::60",
	"60.1.0.10.in-addr.arpa":                  "explicit.example.org",
	reverseKey("fd00:1::60"):                  "explicit6.example.org",
	"61.1.0.10.in-addr.arpa":                  "nobody.example.org",
	strings.ToUpper(reverseKey("fd00:1::62")): "upper.example.org",
}

// badAnswerValues is how many of the addresses in answerRecords are none.
const badAnswerValues = 3

// reverseKey is the key of a PTR record in a DNS row.
func reverseKey(address string) string { return strings.TrimSuffix(reverseName(address), ".") }

func reverseName(address string) string {
	name, err := dns.ReverseAddr(address)
	if err != nil {
		panic(err) // a literal of this file
	}
	return name
}

const (
	nodata   = "NOERROR"
	nxdomain = "NXDOMAIN"
)

// answerQuestions have the answer, and the owner of the SOA record where there
// is no answer.
var answerQuestions = []struct {
	name, qtype, want, soa string
}{
	{"v4.internal.", "A", "NOERROR 10.0.1.41", ""},
	{"v4.internal.", "AAAA", nodata, "internal."},
	{"v4.internal.", "MX", nodata, "internal."},
	{"v4.internal.", "HTTPS", nodata, "internal."},
	{"v4.internal.", "ANY", "NOERROR 10.0.1.41", ""},
	{"v6.internal.", "AAAA", "NOERROR fd00:1::42", ""},
	{"v6.internal.", "A", nodata, "internal."},
	{"v6.internal.", "ANY", "NOERROR fd00:1::42", ""},
	{"two.internal.", "A", "NOERROR 10.0.1.43 10.0.1.44", ""},
	{"two.internal.", "AAAA", "NOERROR fd00:1::43 fd00:1::44", ""},
	{"two.internal.", "ANY", "NOERROR 10.0.1.43 10.0.1.44 fd00:1::43 fd00:1::44", ""},
	{"mixed.internal.", "A", "NOERROR 10.0.1.45", ""},
	{"MIXED.internal.", "A", "NOERROR 10.0.1.45", ""},
	{"tWo.InTeRnAl.", "AAAA", "NOERROR fd00:1::43 fd00:1::44", ""},
	{"V4.INTERNAL.", "AAAA", nodata, "internal."},
	{"comma.internal.", "A", "NOERROR 10.0.1.46 10.0.1.47", ""},
	{"comma.internal.", "AAAA", "NOERROR fd00:1::46 fd00:1::47", ""},
	{"mixed-separators.internal.", "ANY", "NOERROR 10.0.1.48 10.0.1.49 fd00:1::48 fd00:1::49", ""},
	{"bad.internal.", "A", "NOERROR 10.0.1.50 10.0.1.51", ""},
	{"bad.internal.", "AAAA", "NOERROR fd00:1::50", ""},
	{"hopeless.internal.", "A", nxdomain, "internal."},

	{"missing.internal.", "A", nxdomain, "internal."},
	{"missing.internal.", "AAAA", nxdomain, "internal."},
	{"missing.internal.", "ANY", nxdomain, "internal."},
	{"missing.", "A", nxdomain, "missing."},
	{"missing.cloud.internal.", "A", nxdomain, "cloud.internal."},
	{"under.cloud.internal.", "AAAA", nodata, "cloud.internal."},
	{"internal.", "A", nodata, "internal."}, // names lie below it (RFC 8020)
	{"more.v4.internal.", "A", nxdomain, "internal."},

	{reverseName("10.0.1.60"), "PTR", "NOERROR explicit.example.org.", ""},
	{reverseName("fd00:1::60"), "PTR", "NOERROR explicit6.example.org.", ""},
	{reverseName("10.0.1.61"), "PTR", "NOERROR nobody.example.org.", ""},
	{reverseName("fd00:1::62"), "PTR", "NOERROR upper.example.org.", ""},
	{strings.ToUpper(reverseName("fd00:1::60")), "PTR", "NOERROR explicit6.example.org.", ""},
	{reverseName("10.0.1.61"), "A", nodata, "in-addr.arpa."},
	{reverseName("fd00:1::60"), "TXT", nodata, "ip6.arpa."},
	{reverseName("10.0.1.41"), "PTR", "NOERROR v4.internal.", ""},
	{reverseName("10.0.1.44"), "PTR", "NOERROR two.internal.", ""},
	{reverseName("fd00:1::42"), "PTR", "NOERROR v6.internal.", ""},
	{reverseName("fd00:1::44"), "PTR", "NOERROR two.internal.", ""},
	{reverseName("10.0.1.250"), "PTR", nxdomain, "in-addr.arpa."},
	{reverseName("fd00:1::250"), "PTR", nxdomain, "ip6.arpa."},

	// Hostnames of ports.
	{"vm1.", "A", "NOERROR 10.0.1.11", ""},
	{"vm1.", "AAAA", "NOERROR fd00:1::11", ""},
	{"vm1.", "ANY", "NOERROR 10.0.1.11 fd00:1::11", ""},
	{"VM1.", "TXT", nodata, "vm1."},
	{"vm1.cloud.internal.", "A", "NOERROR 10.0.1.11", ""},
	{"Vm1.Cloud.Internal.", "AAAA", "NOERROR fd00:1::11", ""},
	{"vm1.cloud.internal.", "MX", nodata, "cloud.internal."},
	{"vm1.internal.", "A", nxdomain, "internal."},
	{"peer.", "A", "NOERROR 10.0.1.21 10.0.1.22", ""},
	{"peer.cloud.internal.", "AAAA", nodata, "cloud.internal."},
	{"red-peer.", "A", nxdomain, "red-peer."},
	{reverseName("10.0.1.11"), "PTR", "NOERROR vm1.cloud.internal.", ""},
	{reverseName("fd00:1::11"), "PTR", "NOERROR vm1.cloud.internal.", ""},
	{reverseName("10.0.1.22"), "PTR", "NOERROR peer.cloud.internal.", ""},
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	l.AddDNS(answerRecords, "red")
	l.AddDNS(map[string]string{"many.internal": addresses(60), "huge.internal": addresses(100)}, "red")
	emptyPort(l, "red", "red-peer", "02:00:00:00:01:99 10.0.1.21 10.0.1.22", "Peer")
	vm := aclGuest(l, "red", 1, 1)
	l.Sync()
	s := serve(t, l, pipelineCorefile("", "domain cloud.internal", ""))

	t.Run("records", func(t *testing.T) { testRecords(t, vm) })
	t.Run("case", func(t *testing.T) { testCase(t, vm) })
	t.Run("bad values", func(t *testing.T) {
		for _, value := range []string{"10.0.1.500", "fd00::1::2", "nonsense"} {
			if n := strings.Count(s.Log(), fmt.Sprintf("value %q skipped", value)); n != 1 {
				t.Errorf("%d lines in the log tell of %s, want 1\n%s", n, value, s.Log())
			}
		}
		s.reaches(badAnswerValues, "coredns_ovnhosts_bad_values_total")
	})
	t.Run("EDNS", func(t *testing.T) { testEDNS(t, vm) })
	t.Run("size", func(t *testing.T) { testSize(t, vm) })
	t.Run("frames", func(t *testing.T) { testFrames(t, vm, l.Release()) })
	s.endWell()
}

// addresses are so many of IPv4.
func addresses(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("10.0.2.%d", i+1))
	}
	return strings.Join(all, " ")
}

// digWarning is one of what dig complains of, except that recursion is not on offer.
const digWarning = `(?i)warning: [^r]`

var digWarns = regexp.MustCompile(digWarning)

// testRecords asks by dig without EDNS, as a plain stub resolver does.
func testRecords(t *testing.T, vm *lab.Guest) {
	for _, resolver := range resolvers {
		for _, q := range answerQuestions {
			r := vm.DigProgram("+notcp", "+noedns", "@"+resolver, q.name, q.qtype)
			if r.String() != q.want || !slices.Contains(r.Flags, "aa") || digWarns.MatchString(r.Out) {
				t.Errorf("%s, %s %s: %s %q, want %s with aa\n%s", resolver, q.name, q.qtype, r, r.Flags, q.want, r.Out)
				continue
			}
			for _, rr := range r.Answer {
				if h := rr.Header(); h.Name != q.name || h.Ttl != 30 {
					t.Errorf("%s, %s %s: the record is %s, want the name asked for and TTL 30", resolver, q.name, q.qtype, rr)
				}
			}
			owner := ""
			if len(r.Authority) == 1 {
				if soa, ok := r.Authority[0].(*dns.SOA); ok && soa.Minttl == 5 && soa.Hdr.Ttl == 5 {
					owner = strings.ToLower(soa.Hdr.Name)
				}
			}
			if owner != q.soa || len(r.Authority) > 0 && q.soa == "" {
				t.Errorf("%s, %s %s: authority %q, want one SOA of %q\n%s", resolver, q.name, q.qtype, r.Authority, q.soa, r.Out)
			}
		}
	}
}

// testCase has the question's case back to the letter, in question and answer
// (some resolvers take it for a second ID).
func testCase(t *testing.T, vm *lab.Guest) {
	for _, resolver := range resolvers {
		for _, tc := range []struct {
			name  string
			qtype uint16
		}{
			{"MiXeD.Internal.", dns.TypeA},
			{"mixed.internal.", dns.TypeA},
			{"mIXED.iNTERNAL.", dns.TypeA},
			{"VM1.cLoUd.internal.", dns.TypeAAAA},
			{"60.1.0.10.In-Addr.ARPA.", dns.TypePTR},
			{"V4.InterNal.", dns.TypeAAAA},
			{"MISSing.internal.", dns.TypeA},
		} {
			r, err := exchange(within(t, wait), vm, resolver, tc.name, tc.qtype)
			if err != nil {
				t.Error(err)
				continue
			}
			names := []string{r.Question[0].Name}
			for _, rr := range r.Answer {
				names = append(names, rr.Header().Name)
			}
			if slices.ContainsFunc(names, func(n string) bool { return n != tc.name }) {
				t.Errorf("%s asked for %s: the names in the answer are %q", resolver, tc.name, names)
			}
		}
	}
}

// testEDNS is what dig asks of itself, and some of the probes of RFC 8906,
// section 8.
func testEDNS(t *testing.T, vm *lab.Guest) {
	const opt = `(?m)^; EDNS: version: 0, flags:; udp: 1232$`
	for _, resolver := range resolvers {
		for _, tc := range []struct {
			name      string
			args      []string
			want      string
			has, lack string // expressions
		}{
			{"default", nil, "NOERROR 10.0.1.43 10.0.1.44", opt, digWarning},
			{"default of an unknown name", []string{"-q", "missing.internal"}, "NXDOMAIN", opt, digWarning},
			{"none", []string{"+noedns"}, "NOERROR 10.0.1.43 10.0.1.44", `ANSWER: 2, AUTHORITY: 0, ADDITIONAL: 0`, `EDNS`},
			{"no cookie", []string{"+nocookie"}, "NOERROR 10.0.1.43 10.0.1.44", opt, `COOKIE`},
			{"DO", []string{"+dnssec", "+nocookie"}, "NOERROR 10.0.1.43 10.0.1.44", `; EDNS: version: 0, flags: do; udp: 1232`, digWarning},
			{"AD and CD", []string{"+adflag", "+cdflag"}, "NOERROR 10.0.1.43 10.0.1.44", opt, `flags: [a-z ]*\bad\b`},
			{"version 1", []string{"+edns=1", "+noednsneg", "+nocookie"}, "BADVERS", opt, `ANSWER SECTION`},
			{"unknown option", []string{"+ednsopt=100:0102", "+nocookie"}, "NOERROR 10.0.1.43 10.0.1.44", opt, `OPT=100`},
			{"unknown flag", []string{"+ednsflags=0x40", "+nocookie"}, "NOERROR 10.0.1.43 10.0.1.44", opt, `MBZ`},
			{"version 1 with an unknown option", []string{"+edns=1", "+noednsneg", "+nocookie", "+ednsopt=100:0102"}, "BADVERS", opt, `OPT=100`},
			{"client subnet", []string{"+subnet=192.0.2.0/24", "+nocookie"}, "NOERROR 10.0.1.43 10.0.1.44", opt, `CLIENT-SUBNET`},
			{"padding", []string{"+padding=128"}, "NOERROR 10.0.1.43 10.0.1.44", opt, digWarning},
		} {
			args := append([]string{"@" + resolver}, tc.args...)
			if !slices.Contains(args, "-q") {
				args = append(args, "two.internal")
			}
			r := vm.DigProgram(args...)
			if r.String() != tc.want || !regexp.MustCompile(tc.has).MatchString(r.Out) || regexp.MustCompile(tc.lack).MatchString(r.Out) {
				t.Errorf("%s, %s: %s, want %s with %q and without %q\n%s", resolver, tc.name, r, tc.want, tc.has, tc.lack, r.Out)
			}
		}

		// dig's own bytes, to be sure that there is a cookie in them.
		m := new(dns.Msg).SetQuestion("two.internal.", dns.TypeA)
		m.SetEdns0(1232, false)
		const cookie = "0102030405060708"
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: cookie}}
		r, _, err := vm.Exchange(within(t, wait), m, net.JoinHostPort(resolver, "53"))
		if err != nil {
			t.Error(err)
			continue
		}
		if inShort(r) != "NOERROR 10.0.1.43 10.0.1.44" || r.IsEdns0() == nil || r.IsEdns0().Version() != 0 || r.IsEdns0().UDPSize() != 1232 {
			t.Errorf("%s, with a cookie: %v", resolver, r)
			continue
		}
		for _, o := range r.IsEdns0().Option {
			if c, ok := o.(*dns.EDNS0_COOKIE); ok && !strings.HasPrefix(c.Cookie, cookie) {
				t.Errorf("%s: cookie %s, want %s in front or none", resolver, c.Cookie, cookie)
			}
		}
	}
}

// testSize compares the answer as it came with the room that the client has.
func testSize(t *testing.T, vm *lab.Guest) {
	const plain = 0 // without EDNS
	for _, resolver := range resolvers {
		for _, tc := range []struct {
			name      string
			buffer    uint16
			records   int // of the whole answer
			truncated bool
			most      int // bytes
		}{
			{"two.internal.", plain, 2, false, 512},
			{"many.internal.", plain, 60, true, 512},
			{"many.internal.", 100, 60, true, 512}, // RFC 6891, section 6.2.5
			{"many.internal.", 512, 60, true, 512},
			{"many.internal.", 800, 60, true, 800},
			{"many.internal.", 1232, 60, false, 1232},
			{"many.internal.", 4096, 60, false, 1232},
			{"huge.internal.", plain, 100, true, 512},
			{"huge.internal.", 1232, 100, true, 1232},
			{"huge.internal.", 4096, 100, true, 1232},
			{"huge.internal.", 65535, 100, true, 1232},
		} {
			m := new(dns.Msg).SetQuestion(tc.name, dns.TypeA)
			if tc.buffer != plain {
				m.SetEdns0(tc.buffer, false)
			}
			b, err := bytesOf(within(t, wait), vm, m, resolver)
			if err != nil {
				t.Error(err)
				continue
			}
			r := new(dns.Msg)
			if err := r.Unpack(b); err != nil || r.Id != m.Id || r.Rcode != dns.RcodeSuccess {
				t.Errorf("%s, %s, buffer %d: %v %v", resolver, tc.name, tc.buffer, r, err)
				continue
			}
			whole := len(r.Answer) == tc.records
			if len(b) > tc.most || r.Truncated != tc.truncated || whole == tc.truncated || (r.IsEdns0() != nil) != (tc.buffer != plain) {
				t.Errorf("%s, %s, buffer %d: %d bytes, TC %t, %d records, OPT %v; want at most %d bytes, TC %t, %d records if that is unset",
					resolver, tc.name, tc.buffer, len(b), r.Truncated, len(r.Answer), r.IsEdns0(), tc.most, tc.truncated, tc.records)
			}
		}
		// A client that gives up on UDP when it sees TC.
		if r := vm.DigProgram("+noedns", "+ignore", "@"+resolver, "many.internal"); !slices.Contains(r.Flags, "tc") {
			t.Errorf("%s: dig sees no TC\n%s", resolver, r.Out)
		}
	}
}

// bytesOf asks and returns the answer as it came.
func bytesOf(ctx context.Context, g *lab.Guest, m *dns.Msg, resolver string) ([]byte, error) {
	query, err := m.Pack()
	if err != nil {
		return nil, err
	}
	return exchangeBytes(ctx, g, query, net.JoinHostPort(resolver, "53"))
}

// testFrames looks at the answers as they reach the guest's interface.
func testFrames(t *testing.T, vm *lab.Guest, release lab.Release) {
	raw := vm.Raw()
	t.Cleanup(func() { raw.Close() })
	const gateway = "02:00:00:00:01:01"
	for _, tc := range []struct {
		name  string
		query udpFrame
	}{
		{"IPv4", udpFrame{src: "10.0.1.11:40000", dst: "169.254.169.254:53"}},
		{"IPv4, low ports", udpFrame{src: "10.0.1.11:1", dst: "169.254.169.254:53"}},
		{"IPv4, port 53 at both ends", udpFrame{src: "10.0.1.11:53", dst: "169.254.169.254:53"}},
		{"IPv4 without a checksum", udpFrame{src: "10.0.1.11:40001", dst: "169.254.169.254:53", noSum: true}},
		{"IPv4, DF, DSCP and ID", udpFrame{src: "10.0.1.11:40002", dst: "169.254.169.254:53", flags: 0x40, tos: 0xb8, id: 4711}},
		{"IPv4 with options", udpFrame{src: "10.0.1.11:40003", dst: "169.254.169.254:53", extra: []byte{1, 1, 1, 0}}},
		{"IPv4 to another neighbour", udpFrame{src: "10.0.1.11:40004", dst: "169.254.169.254:53", dstMAC: "02:00:00:00:77:77"}},
		{"IPv6", udpFrame{src: "[fd00:1::11]:40000", dst: "[fd00::254]:53"}},
		{"IPv6, the last port", udpFrame{src: "[fd00:1::11]:65535", dst: "[fd00::254]:53"}},
		{"IPv6, traffic class", udpFrame{src: "[fd00:1::11]:40002", dst: "[fd00::254]:53", tos: 0xb8}},
		{"IPv6 with hop-by-hop options", udpFrame{src: "[fd00:1::11]:40003", dst: "[fd00::254]:53", extra: []byte{17, 0, 1, 4, 0, 0, 0, 0}}},
		{"IPv6 to another neighbour", udpFrame{src: "[fd00:1::11]:40004", dst: "[fd00::254]:53", dstMAC: "02:00:00:00:77:77"}},
	} {
		// Names of even and odd length: the checksum goes by pairs of bytes.
		for _, name := range []string{"two.internal.", "mixed.internal.", "missing.internal."} {
			t.Run(tc.name+" "+name, func(t *testing.T) {
				q := tc.query
				if spoiled(t, release, q) {
					return
				}
				q.srcMAC, q.ttl = "02:00:00:00:01:11", 7
				if q.dstMAC == "" {
					q.dstMAC = gateway
				}
				m := new(dns.Msg).SetQuestion(name, dns.TypeA)
				q.payload = pack(t, m)
				got, err := rawExchange(within(t, wait), raw, q.build(t), q.dst)
				if err != nil {
					t.Fatal(err)
				}
				r := new(dns.Msg)
				if err := r.Unpack(udpPayload(got)); err != nil || r.Id != m.Id || !r.Response || len(r.Question) != 1 || r.Question[0] != m.Question[0] {
					t.Errorf("the message is %v: %v", r, err)
				}
				// The whole frame again, with lengths and checksums by another hand.
				want := udpFrame{
					srcMAC: q.dstMAC, dstMAC: q.srcMAC, src: q.dst, dst: q.src,
					ttl: 64, flags: 0x40, payload: udpPayload(got),
				}.build(t)
				if !bytes.Equal(got, want) {
					t.Errorf("the frame is\n%x, want\n%x", got, want)
				}
			})
		}
	}
}

// changing is a switch with a guest who asks, and a port and a DNS row that
// change.
type changing struct {
	*lab.Lab
	vm  *lab.Guest
	row string // of the Northbound table DNS
}

func newChanging(t *testing.T) *changing {
	t.Helper()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	n := &changing{Lab: l, row: l.AddDNS(map[string]string{"kept.internal": "10.0.1.50"}, "red")}
	n.vm = aclGuest(l, "red", 1, 1)
	l.Sync()
	return n
}

// expectNow asks both resolver addresses for what is there already.
func (n *changing) expectNow(t *testing.T, name, qtype, want string) {
	t.Helper()
	for _, resolver := range resolvers {
		expect(t, n.vm, want, "@"+resolver, name, qtype)
	}
}

// Names that nobody here has go to an upstream, and get an answer in time whatever
// becomes of that.
func TestAnswersForward(t *testing.T) {
	t.Parallel()
	n := newChanging(t)
	up := n.Upstream(
		"www.example.org. 60 IN A 192.0.2.1", "www.example.org. 60 IN A 192.0.2.2", "www.example.org. 60 IN AAAA 2001:db8::1",
		"alias.example.org. 60 IN CNAME www.example.org.", "1.2.0.192.in-addr.arpa. 60 IN PTR www.example.org.",
		"kept.internal. 60 IN AAAA 2001:db8::bad", "kept.internal. 60 IN A 192.0.2.66")
	var big []string
	for i := range 100 {
		big = append(big, fmt.Sprintf("big.example.org. 60 IN A 192.0.2.%d", i))
	}
	large, silent, closed, late := n.Upstream(big...), n.Upstream(), n.Upstream(), n.Upstream()
	silent.SetHandler(dns.HandlerFunc(func(dns.ResponseWriter, *dns.Msg) {}))
	closed.Close()
	release := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	defer letGo()
	late.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		<-release
		m := new(dns.Msg).SetReply(r)
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 5)}}
		_ = w.WriteMsg(m) // to whom still waits for it
	}))
	s := serve(t, n.Lab, pipelineCorefile("", "fallthrough", "forward . "+up.Addr)+`
big.example.org {
    ofpunt br-int
    errors
    cache
    forward . `+large.Addr+`
}
closed.test {
    ofpunt br-int
    errors
    forward . `+closed.Addr+` 192.0.2.1
}
silent.test {
    ofpunt br-int
    errors
    forward . `+silent.Addr+`
}
both.test {
    ofpunt br-int
    errors
    forward . `+silent.Addr+` `+closed.Addr+`
}
late.test {
    ofpunt br-int
    errors
    log . "the chain says {name} {rcode}"
    forward . `+late.Addr+` {
        max_connect_attempts 0
    }
}
`)
	t.Run("alive", func(t *testing.T) {
		for _, q := range []struct{ name, qtype, want string }{
			{"www.example.org", "A", "NOERROR 192.0.2.1 192.0.2.2"},
			{"WWW.Example.ORG", "AAAA", "NOERROR 2001:db8::1"},
			{"alias.example.org", "A", "NOERROR www.example.org."},
			{"1.2.0.192.in-addr.arpa", "PTR", "NOERROR www.example.org."},
			{"www.example.org", "MX", nodata},
			{"missing.example.org", "A", nxdomain},
			{"kept.internal", "A", "NOERROR 10.0.1.50"},
			{"kept.internal", "AAAA", nodata},
		} {
			n.expectNow(t, q.name, q.qtype, q.want)
		}
		for name, want := range map[string]int{"www.example.org": 6, "missing.example.org": 2, "kept.internal": 0} {
			if got := up.Count(name); got != want {
				t.Errorf("the upstream was asked %d times for %s, want %d", got, name, want)
			}
		}
	})
	// nslookup leaves a server whose answer has no RA for the next one, and says so.
	t.Run("nslookup", func(t *testing.T) {
		conf := n.WriteFile("resolv.conf", "nameserver "+strings.Join(resolvers, "\nnameserver ")+"\n")
		for _, q := range []struct{ name, want string }{{"kept.internal.", "10.0.1.50"}, {"www.example.org.", "192.0.2.1"}} {
			// In a mount namespace of its own it finds that file.
			out, err := n.vm.Exec(within(t, wait), "unshare", "--mount", "sh", "-euc", `mount --bind "$1" /etc/resolv.conf; exec nslookup "$2"`, "sh", conf, q.name)
			if err != nil || !strings.Contains(out, "Server:\t\t"+resolvers[0]+"\n") || !strings.Contains(out, "Address: "+q.want+"\n") || strings.Contains(out, "recursion") {
				t.Errorf("%v, want %s by %s:\n%s", err, q.want, resolvers[0], out)
			}
		}
	})
	t.Run("too big", func(t *testing.T) {
		for _, resolver := range resolvers {
			for _, buffer := range []uint16{4096, 1232, 600, 4096} {
				m := new(dns.Msg).SetQuestion("big.example.org.", dns.TypeA)
				m.SetEdns0(buffer, false)
				b, err := bytesOf(within(t, wait), n.vm, m, resolver)
				r := new(dns.Msg)
				if err == nil {
					err = r.Unpack(b)
				}
				if err != nil || r.Rcode != dns.RcodeSuccess || !r.Truncated || len(b) > min(int(buffer), 1232) {
					t.Errorf("%s, buffer %d: %d bytes, want TC: %v\n%v", resolver, buffer, len(b), err, r)
				}
			}
		}
	})
	// The second round finds upstreams that are known to be dead.
	for round := range 2 {
		t.Run(fmt.Sprintf("dead, round %d", round+1), func(t *testing.T) {
			var wrong mistakes
			var wg sync.WaitGroup
			ctx := within(t, wait)
			for _, zone := range []string{"closed.test.", "silent.test.", "both.test."} {
				for _, resolver := range resolvers {
					for _, host := range []string{"a.", "b."} {
						wg.Go(func() {
							m := new(dns.Msg).SetQuestion(host+zone, dns.TypeA)
							asked := time.Now()
							r, _, err := n.vm.Exchange(ctx, m, net.JoinHostPort(resolver, "53"))
							took := time.Since(asked)
							if err != nil || inShort(r) != "SERVFAIL" || took > 5*time.Second {
								wrong.add(fmt.Sprintf("%s%s at %s: %v %v in %s, want SERVFAIL in 5 s", host, zone, resolver, r, err, took))
							}
						})
					}
				}
			}
			// The others do not wait for them.
			n.expectNow(t, "kept.internal", "A", "NOERROR 10.0.1.50")
			n.expectNow(t, "www.example.org", "AAAA", "NOERROR 2001:db8::1")
			wg.Wait()
			wrong.report(t)
		})
	}
	if silent.Count("a.silent.test.") == 0 {
		t.Error("the silent upstream was never asked")
	}
	// The upstream's answer comes when the guest has been told SERVFAIL, and has its
	// socket open for the next query.
	t.Run("late", func(t *testing.T) {
		deadline := func() float64 {
			return s.metric("coredns_ofpunt_packet_ins_total", "bridge", lab.Bridge, "result", "answered", "reason", "deadline")
		}
		before := deadline()
		var all []*questioner
		for i, resolver := range resolvers {
			q := questions(t, n.vm, resolver)
			if err := q.ask(fmt.Sprintf("q%d.late.test.", i), dns.TypeA, "SERVFAIL"); err != nil {
				t.Fatal(err)
			}
			all = append(all, q)
		}
		for _, q := range all {
			if !q.below(1, wait) {
				t.Fatal("there is no answer at the deadline")
			}
		}
		letGo()
		for i, q := range all {
			s.log(fmt.Sprintf(`the chain says q%d\.late\.test\. NOERROR`, i))
			// A second answer would come before this one.
			if err := q.ask("kept.internal.", dns.TypeA, "NOERROR 10.0.1.50"); err != nil {
				t.Fatal(err)
			}
			q.finish(wait).clean(t, resolvers[i])
		}
		if n := deadline() - before; n != float64(len(all)) {
			t.Errorf("%v answers at the deadline are counted, want %d", n, len(all))
		}
	})
	t.Run("back again", func(t *testing.T) {
		silent.SetHandler(nil)
		silent.Set("a.silent.test. 60 IN A 192.0.2.3")
		n.Eventually("the upstream's answer", func() error {
			r, err := exchange(within(t, wait), n.vm, resolver6, "a.silent.test.", dns.TypeA)
			if err == nil && inShort(r) != "NOERROR 192.0.2.3" {
				err = errors.New(inShort(r))
			}
			return err
		})
	})
	s.endWell()
}

// Guests without a gateway find the resolver addresses on their link.
func TestAnswersOnLink(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	var guests []*lab.Guest
	for _, sw := range []string{"red", "blue"} {
		aclSwitch(l, sw, 1)
		l.AddDNS(map[string]string{"who.internal": map[string]string{"red": "10.0.1.101", "blue": "10.0.1.201"}[sw]}, sw)
		guests = append(guests, l.Node.AddGuest(lab.Guest{
			Name: sw + "-alone", Switch: sw, MAC: "02:00:00:00:01:11",
			Addrs:        lab.Prefixes("10.0.1.11/32", "fd00:1::11/128"),
			Routes:       []string{resolver4 + " dev " + lab.Iface, resolver6 + " dev " + lab.Iface},
			PortSecurity: true,
		}))
	}
	l.NBCTL("set", "NB_Global", ".", "options:ignore_lsp_down=false")
	aclSwitch(l, "green", 3)
	emptyPort(l, "green", "green-owner", "02:00:00:00:03:99 169.254.169.254 fd00::254", "owner")
	vm := aclGuest(l, "green", 3, 1)
	l.Sync()
	s := serve(t, l, pipelineCorefile("address "+resolver4+" "+resolver6, "", ""))
	macs := map[string]bool{}
	for i, g := range guests {
		t.Run(g.Name, func(t *testing.T) {
			want := []string{"NOERROR 10.0.1.101", "NOERROR 10.0.1.201"}[i]
			for _, resolver := range resolvers {
				if out, err := g.Exec(within(t, wait), "ip", "neigh", "show", "to", resolver); err != nil || out != "" {
					t.Fatalf("%s is known before it is asked: %q, %v", resolver, out, err)
				}
				expect(t, g, want, "@"+resolver, "who.internal")
				out, err := g.Exec(within(t, wait), "ip", "neigh", "show", "to", resolver)
				m := regexp.MustCompile(`lladdr (\S+)`).FindStringSubmatch(out)
				if err != nil || m == nil {
					t.Fatalf("%s is no neighbour: %q, %v", resolver, out, err)
				}
				macs[m[1]] = true
			}
			testNeighbors(t, g)
		})
	}
	if len(macs) != 1 {
		t.Errorf("the resolver addresses have the MACs %v, want the same for all", macs)
	}
	t.Run("owned", func(t *testing.T) { testOwned(t, l, vm, "green-owner") })
	s.endWell()
}

// testNeighbors asks by frames for the resolver addresses, and for others, which
// are not puntdns's.
func testNeighbors(t *testing.T, g *lab.Guest) {
	own, err := net.ParseMAC(g.MAC)
	if err != nil {
		t.Fatal(err)
	}
	raw := g.Raw()
	defer raw.Close()
	guest4, guest6 := lab.Addr("10.0.1.11"), lab.Addr("fd00:1::11")
	ours4, ours6 := lab.Addr(resolver4), lab.Addr(resolver6)
	other4, other6, sameGroup6 := lab.Addr("169.254.169.253"), lab.Addr("fd00::253"), lab.Addr("fd00:2::254")
	var known net.HardwareAddr
	for _, tc := range []struct {
		name    string
		sender  netip.Addr
		target  netip.Addr
		unicast bool
		answer  bool
	}{
		{name: "ARP for another", sender: guest4, target: other4},
		{name: "ARP probe", sender: netip.IPv4Unspecified(), target: ours4},
		{name: "ARP", sender: guest4, target: ours4, answer: true},
		{name: "NS for another", sender: guest6, target: other6},
		{name: "NS for another of the same multicast group", sender: guest6, target: sameGroup6},
		{name: "NS of duplicate address detection", sender: netip.IPv6Unspecified(), target: ours6},
		{name: "NS", sender: guest6, target: ours6, answer: true},
		{name: "ARP to the neighbour known", sender: guest4, target: ours4, unicast: true, answer: true},
		{name: "NS to the neighbour known", sender: guest6, target: ours6, unicast: true, answer: true},
	} {
		q := neighborQuery{mac: own, known: known, sender: tc.sender, target: tc.target, unicast: tc.unicast}
		if err := raw.Send(q.build()); err != nil {
			t.Fatal(err)
		}
		if !tc.answer {
			continue // what comes next has to be the answer to the next
		}
		got, err := raw.RecvMatch(within(t, wait), func(f []byte) bool {
			switch a := neighborTold(f); a {
			case other4, other6, sameGroup6, tc.target:
				return true
			default:
				// The kernel of the guest asks for the others on its own.
				return false
			}
		})
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if known == nil {
			known = net.HardwareAddr(got[6:12])
		}
		q.known = known
		if want := q.answer(); !bytes.Equal(got, want) {
			t.Errorf("%s: the answer is\n%x, want\n%x", tc.name, got, want)
		}
	}
}

// testOwned has a port of the switch own the resolver addresses: then puntdns does
// not say that it has them. Nor does OVN, as the port is down.
func testOwned(t *testing.T, l *lab.Lab, vm *lab.Guest, owner string) {
	own, err := net.ParseMAC(vm.MAC)
	if err != nil {
		t.Fatal(err)
	}
	raw := vm.Raw()
	defer raw.Close()
	queries := []neighborQuery{
		{mac: own, sender: vm.Addrs[0].Addr(), target: lab.Addr(resolver4)},
		{mac: own, sender: vm.Addrs[1].Addr(), target: lab.Addr(resolver6)},
	}
	for _, q := range queries {
		if err := raw.Send(q.build()); err != nil {
			t.Fatal(err)
		}
		// The answer to a query through the gateway, sent later, marks the end.
		f := udpFrame{
			srcMAC: vm.MAC, dstMAC: "02:00:00:00:03:01", ttl: 64, src: vm.Addrs[0].Addr().String() + ":4000", dst: resolver4 + ":53",
			payload: pack(t, new(dns.Msg).SetQuestion("vm1.", dns.TypeA)),
		}
		if err := raw.Send(f.build(t)); err != nil {
			t.Fatal(err)
		}
		answer := sentBy(f.dst)
		got, err := raw.RecvMatch(within(t, wait), func(f []byte) bool { return answer(f) || neighborTold(f) == q.target })
		if err != nil {
			t.Fatal(err)
		}
		if !answer(got) {
			t.Errorf("%s was said to be at %s, and is of a port that is down", q.target, net.HardwareAddr(got[6:12]))
		}
	}
	l.NBCTL("lsp-del", owner)
	for _, q := range queries {
		l.Eventually("who has "+q.target.String(), func() error {
			if err := raw.Send(q.build()); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second/5)
			defer cancel()
			_, err := raw.RecvMatch(ctx, func(f []byte) bool { return neighborTold(f) == q.target })
			return err
		})
	}
}
