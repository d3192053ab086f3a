// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// ovnRecords are those that OVN tests its own DNS with, and some that show where
// it ends.
var ovnRecords = map[string]string{
	"vm1.ovn.org":           "10.0.0.4 aef0::4",
	"vm2.ovn.org":           "10.0.0.6 20.0.0.4",
	"4.0.0.10.in-addr.arpa": "vm1.ovn.org",
	reverseKey("aef0::4"):   "vm1.ovn.org",

	"VM3.ovn.org":    "10.0.0.7",
	"comma.ovn.org":  "10.0.0.8,10.0.0.9",
	"*.apps.ovn.org": "10.0.0.10",
	"wide.ovn.org":   addresses(40),
	"wider.ovn.org":  addresses(100),
}

// What becomes of a query, beside an answer: see recorder.outcome.
const (
	passes    = "passes"
	noReply   = "no reply"
	malformed = "malformed"
)

// ovnQuestions have the outcome with OVN's own DNS, that of a release that answers queries
// with additional records if it is another one; with puntdns in hijack mode,
// where guests ask a server of their own; and in service mode, where they ask a
// resolver address. An answer has the TTL 3600 from OVN and 42 from puntdns.
var ovnQuestions = []struct {
	name         string
	change       func(n *ovnNetwork) // comes first
	qname, qtype string
	query        func(m *dns.Msg) // makes it an unusual one
	cut          int              // bytes to send, if not all
	ipv6         bool
	far          bool // from the guest behind the router, to the server

	ovn, additional, hijack, service string
}{
	{name: "A", qname: "vm1.ovn.org.", qtype: "A",
		ovn: "NOERROR 3600 10.0.0.4", hijack: "NOERROR aa 42 10.0.0.4", service: "NOERROR aa 42 10.0.0.4"},
	{name: "several addresses", qname: "vm2.ovn.org.", qtype: "A",
		ovn: "NOERROR 3600 10.0.0.6 20.0.0.4", hijack: "NOERROR aa 42 10.0.0.6 20.0.0.4", service: "NOERROR aa 42 10.0.0.6 20.0.0.4"},
	{name: "upper case", qname: "VM1.OVN.ORG.", qtype: "A",
		ovn: "NOERROR 3600 10.0.0.4", hijack: "NOERROR aa 42 10.0.0.4", service: "NOERROR aa 42 10.0.0.4"},
	{name: "upper case in the database", qname: "vm3.ovn.org.", qtype: "A",
		ovn: passes, hijack: "NOERROR aa 42 10.0.0.7", service: "NOERROR aa 42 10.0.0.7"},
	{name: "upper case in both", qname: "VM3.ovn.org.", qtype: "A",
		ovn: passes, hijack: "NOERROR aa 42 10.0.0.7", service: "NOERROR aa 42 10.0.0.7"},
	{name: "unknown name", qname: "vm9.ovn.org.", qtype: "A",
		ovn: passes, hijack: passes, service: "NXDOMAIN aa SOA org. 5"},

	{name: "AAAA over IPv4", qname: "vm1.ovn.org.", qtype: "AAAA",
		ovn: "NOERROR 3600 aef0::4", hijack: "NOERROR aa 42 aef0::4", service: "NOERROR aa 42 aef0::4"},
	{name: "AAAA of a name that has IPv4 only", qname: "vm2.ovn.org.", qtype: "AAAA",
		ovn: passes, hijack: "NOERROR aa SOA org. 5", service: "NOERROR aa SOA org. 5"},
	{name: "ANY is A, then AAAA", qname: "vm1.ovn.org.", qtype: "ANY",
		ovn: "NOERROR 3600 10.0.0.4 aef0::4", hijack: "NOERROR aa 42 10.0.0.4 aef0::4", service: "NOERROR aa 42 10.0.0.4 aef0::4"},
	{name: "NS", qname: "vm1.ovn.org.", qtype: "NS",
		ovn: passes, hijack: "NOERROR aa SOA org. 5", service: "NOERROR aa SOA org. 5"},
	{name: "NS of an unknown name", qname: "vm9.ovn.org.", qtype: "NS",
		ovn: passes, hijack: passes, service: "NXDOMAIN aa SOA org. 5"},
	{name: "a question cut off in the name", qname: "vm1.ovn.org.", qtype: "A", cut: 20,
		ovn: passes, hijack: passes, service: "FORMERR"},
	{name: "a question cut off behind the name", qname: "vm1.ovn.org.", qtype: "A", cut: 26,
		ovn: passes, hijack: passes, service: "FORMERR"},

	{name: "A over IPv6", qname: "vm1.ovn.org.", qtype: "A", ipv6: true,
		ovn: "NOERROR 3600 10.0.0.4", hijack: "NOERROR aa 42 10.0.0.4", service: "NOERROR aa 42 10.0.0.4"},
	{name: "AAAA over IPv6", qname: "vm1.ovn.org.", qtype: "AAAA", ipv6: true,
		ovn: "NOERROR 3600 aef0::4", hijack: "NOERROR aa 42 aef0::4", service: "NOERROR aa 42 aef0::4"},

	{name: "PTR of IPv4", qname: "4.0.0.10.in-addr.arpa.", qtype: "PTR",
		ovn: "NOERROR 3600 vm1.ovn.org.", hijack: "NOERROR aa 42 vm1.ovn.org.", service: "NOERROR aa 42 vm1.ovn.org."},
	{name: "PTR of IPv6", qname: reverseName("aef0::4"), qtype: "PTR", ipv6: true,
		ovn: "NOERROR 3600 vm1.ovn.org.", hijack: "NOERROR aa 42 vm1.ovn.org.", service: "NOERROR aa 42 vm1.ovn.org."},
	{name: "PTR in upper case", qname: "4.0.0.10.IN-ADDR.ARPA.", qtype: "PTR",
		ovn: "NOERROR 3600 vm1.ovn.org.", hijack: "NOERROR aa 42 vm1.ovn.org.", service: "NOERROR aa 42 vm1.ovn.org."},
	{name: "PTR without a record", qname: "4.0.0.20.in-addr.arpa.", qtype: "PTR",
		ovn: passes, hijack: "NOERROR aa 42 vm2.ovn.org.", service: "NOERROR aa 42 vm2.ovn.org."},

	{name: "EDNS", qname: "vm1.ovn.org.", qtype: "A", query: func(m *dns.Msg) { m.SetEdns0(1232, false) },
		ovn: passes, additional: "NOERROR 3600 10.0.0.4", hijack: "NOERROR aa edns 42 10.0.0.4", service: "NOERROR aa edns 42 10.0.0.4"},
	{name: "EDNS with the client's subnet", qname: "vm1.ovn.org.", qtype: "A", query: func(m *dns.Msg) {
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: net.IPv4(192, 0, 2, 0)}}
	}, ovn: passes, additional: "NOERROR 3600 10.0.0.4", hijack: "NOERROR aa edns 42 10.0.0.4", service: "NOERROR aa edns 42 10.0.0.4"},
	{name: "EDNS over IPv6", qname: "vm1.ovn.org.", qtype: "A", ipv6: true, query: func(m *dns.Msg) { m.SetEdns0(1232, false) },
		ovn: passes, additional: "NOERROR 3600 10.0.0.4", hijack: "NOERROR aa edns 42 10.0.0.4", service: "NOERROR aa edns 42 10.0.0.4"},

	{name: "addresses behind a comma", qname: "comma.ovn.org.", qtype: "A",
		ovn: "NOERROR 3600 10.0.0.8", hijack: "NOERROR aa 42 10.0.0.8 10.0.0.9", service: "NOERROR aa 42 10.0.0.8 10.0.0.9"},
	{name: "an answer over 512 bytes", qname: "wide.ovn.org.", qtype: "A",
		ovn: "NOERROR 3600 40 records", hijack: "NOERROR aa tc", service: "NOERROR aa tc"},
	{name: "an answer over the MTU", qname: "wider.ovn.org.", qtype: "A",
		ovn: noReply, hijack: "NOERROR aa tc", service: "NOERROR aa tc"},
	{name: "wildcard", qname: "shop.apps.ovn.org.", qtype: "A",
		ovn: passes, hijack: "NOERROR aa 42 10.0.0.10", service: "NOERROR aa 42 10.0.0.10"},
	{name: "the wildcard's own name", qname: "*.apps.ovn.org.", qtype: "A",
		ovn: "NOERROR 3600 10.0.0.10", hijack: "NOERROR aa 42 10.0.0.10", service: "NOERROR aa 42 10.0.0.10"},

	// What puntdns resumes meets OVN's own DNS, which stays in its place.
	{name: "a label with dots in it", qname: `vm1\.ovn\.org.`, qtype: "A",
		ovn: "NOERROR 3600 10.0.0.4", hijack: "NOERROR 3600 10.0.0.4", service: `NXDOMAIN aa SOA vm1\.ovn\.org. 5`},
	{name: "another class", qname: "vm1.ovn.org.", qtype: "A", query: func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS },
		ovn: "NOERROR 3600 10.0.0.4", hijack: "NOERROR 3600 10.0.0.4", service: "REFUSED"},
	{name: "two questions", qname: "vm1.ovn.org.", qtype: "A", query: func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) },
		ovn: "NOERROR 3600 10.0.0.4", additional: malformed, hijack: "NOERROR 3600 10.0.0.4", service: "FORMERR"},
	{name: "by way of a router", qname: "vm1.ovn.org.", qtype: "A", far: true,
		ovn: "NOERROR 3600 10.0.0.4", hijack: "NOERROR 3600 10.0.0.4", service: "NOERROR 3600 10.0.0.4"},

	{name: "a record that is removed", qname: "vm1.ovn.org.", qtype: "A",
		change: func(n *ovnNetwork) { n.NBCTL("remove", "DNS", n.row, "records", "vm1.ovn.org") },
		ovn:    passes, hijack: passes, service: "NXDOMAIN aa SOA org. 5"},
	{name: "the others stay", qname: "vm2.ovn.org.", qtype: "A",
		ovn: "NOERROR 3600 10.0.0.6 20.0.0.4", hijack: "NOERROR aa 42 10.0.0.6 20.0.0.4", service: "NOERROR aa 42 10.0.0.6 20.0.0.4"},
	{name: "a record that is added again", qname: "vm1.ovn.org.", qtype: "A",
		change: func(n *ovnNetwork) { n.NBCTL("set", "DNS", n.row, `records:vm1.ovn.org="10.0.0.4 aef0::4"`) },
		ovn:    "NOERROR 3600 10.0.0.4", hijack: "NOERROR aa 42 10.0.0.4", service: "NOERROR aa 42 10.0.0.4"},
	{name: "a row that is taken from the switch", qname: "vm1.ovn.org.", qtype: "A",
		change: func(n *ovnNetwork) { n.NBCTL("clear", "Logical_Switch", "left", "dns_records") },
		ovn:    passes, hijack: passes, service: "NXDOMAIN aa SOA org. 5"},
	{name: "a row that is given back", qname: "vm1.ovn.org.", qtype: "AAAA",
		change: func(n *ovnNetwork) { n.NBCTL("add", "Logical_Switch", "left", "dns_records", n.row) },
		ovn:    "NOERROR 3600 aef0::4", hijack: "NOERROR aa 42 aef0::4", service: "NOERROR aa 42 aef0::4"},
}

// ovnNetwork has a switch with DNS records and a guest who asks another, whose
// server has none; and a guest behind a router, whose switch has no records.
type ovnNetwork struct {
	*lab.Lab
	row      string
	vm1, far *lab.Guest
	server   *recorder
}

func newOVNNetwork(t *testing.T) *ovnNetwork {
	t.Helper()
	l := lab.New(t, lab.Options{})
	l.AddSwitch("left")
	l.AddSwitch("right")
	l.AddRouter("r",
		lab.RouterPort{Switch: "left", MAC: "02:00:00:00:01:01", Networks: []string{"10.0.0.1/24", "aef0::1/64"}},
		lab.RouterPort{Switch: "right", MAC: "02:00:00:00:02:01", Networks: []string{"20.0.0.1/24", "bef0::1/64"}})
	n := &ovnNetwork{Lab: l, row: l.AddDNS(ovnRecords, "left")}
	guest := func(sw, name, subnet4, subnet6 string, host int) *lab.Guest {
		return l.Node.AddGuest(lab.Guest{
			Name: name, Switch: sw, MAC: fmt.Sprintf("02:00:00:00:00:%02d", host),
			Addrs:    lab.Prefixes(fmt.Sprintf("%s.%d/24", subnet4, host), fmt.Sprintf("%s::%d/64", subnet6, host)),
			Gateway4: lab.Addr(subnet4 + ".1"), Gateway6: lab.Addr(subnet6 + "::1"), PortSecurity: true,
		})
	}
	n.vm1, n.far = guest("left", "vm1", "10.0.0", "aef0", 4), guest("right", "far", "20.0.0", "bef0", 5)
	n.server = record(t, guest("left", "server", "10.0.0", "aef0", 53), "10.0.0.53:53", "[aef0::53]:53")
	l.Sync()
	return n
}

func TestOVNDNS(t *testing.T) {
	t.Parallel()
	n := newOVNNetwork(t)
	release := n.Release()
	for _, mode := range []struct{ name, corefile string }{
		{name: "OVN"},
		{"hijack", pipelineCorefile("address any", "ttl 42\n        fallthrough", "passthrough")},
		{"service", pipelineCorefile("", "ttl 42", "")},
	} {
		t.Run(mode.name, func(t *testing.T) {
			if mode.corefile != "" {
				s := serve(t, n.Lab, mode.corefile)
				defer s.endWell()
				// What was asked of OVN a moment ago is cached in the switch, and
				// asked of it again until the cache has been looked through.
				n.Node.Revalidate()
			}
			for _, q := range ovnQuestions {
				want, to := q.ovn, "10.0.0.53:53"
				newer := release.DNSAnswersEDNS() && q.additional != ""
				if newer {
					want = q.additional
				}
				if q.ipv6 {
					to = "[aef0::53]:53"
				}
				switch {
				case mode.name == "hijack" && q.hijack == q.ovn && newer: // OVN answers
				case mode.name == "hijack":
					want = q.hijack
				case mode.name == "service" && !q.far:
					want, to = q.service, net.JoinHostPort(resolver4, "53")
					if q.ipv6 {
						to = net.JoinHostPort(resolver6, "53")
					}
				case mode.name == "service":
					want = q.service
				}
				t.Run(q.name, func(t *testing.T) {
					guest := n.vm1
					if q.far {
						guest = n.far
					}
					m := new(dns.Msg).SetQuestion(q.qname, dns.StringToType[q.qtype])
					if q.query != nil {
						q.query(m)
					}
					query := pack(t, m)
					if q.cut > 0 {
						query = query[:q.cut]
					}
					same := func(got string) bool {
						if mode.name == "OVN" && release.DNSShuffles() {
							return unordered(got) == unordered(want)
						}
						return got == want
					}
					if q.change == nil {
						if got := n.server.outcome(guest, query, to, want != noReply); !same(got) {
							t.Errorf("%s, want %s", got, want)
						}
						return
					}
					q.change(n)
					n.Sync()
					n.Eventually("the change", func() error {
						if got := n.server.outcome(guest, query, to, true); !same(got) {
							return fmt.Errorf("%s, want %s", got, want)
						}
						return nil
					})
				})
			}
			// One more that comes late would be counted here.
			m := new(dns.Msg).SetQuestion("vm9.ovn.org.", dns.TypeA)
			if got := n.server.outcome(n.vm1, pack(t, m), "10.0.0.53:53", true); got != passes {
				t.Errorf("at last: %s, want %s", got, passes)
			}
		})
	}
}

// recorder is a DNS server without names that remembers every byte that gets to
// it. It returns a query with a status that nobody else here gives, whatever it
// can make of it.
type recorder struct {
	mu   sync.Mutex
	got  [][]byte
	seen int // of got, in what outcome has told
}

// notZone is that status.
const notZone = dns.RcodeNotZone

func record(t *testing.T, g *lab.Guest, addrs ...string) *recorder {
	t.Helper()
	r := new(recorder)
	for _, addr := range addrs {
		conn := datagrams(t, g, addr)
		go r.serve(conn)
	}
	return r
}

func (r *recorder) serve(conn net.PacketConn) {
	b := make([]byte, 1<<16)
	for {
		n, from, err := conn.ReadFrom(b)
		if err != nil {
			return // the test is over
		}
		reply := bytes.Clone(b[:n])
		r.mu.Lock()
		r.got = append(r.got, bytes.Clone(reply))
		r.mu.Unlock()
		if n > 3 {
			reply[2] |= 0x80
			reply[3] = notZone
		}
		// A client that has gone is no failure of the server.
		_, _ = conn.WriteTo(reply, from)
	}
}

// arrived are the queries that have come since it was last called.
func (r *recorder) arrived() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.seen
	r.seen = len(r.got)
	return r.got[was:]
}

// outcome asks and tells what becomes of the query: status, flags, EDNS, TTL and
// data of the answer, or that the query has got to the server as it was. Without
// patience it soon takes no reply for an answer.
func (r *recorder) outcome(g *lab.Guest, query []byte, to string, patience bool) string {
	limit := 2 * time.Second
	if patience {
		limit = wait
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	b, err := exchangeBytes(ctx, g, query, to)
	arrived := r.arrived()
	var answer string
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		answer = noReply
	case err != nil:
		answer = err.Error()
	case len(b) > 3 && b[3]&15 == notZone:
		answer = passes
	default:
		answer = spell(query, b)
	}
	switch {
	case len(arrived) == 0 && answer != passes, len(arrived) == 1 && answer == passes && bytes.Equal(arrived[0], query):
		return answer
	default:
		return fmt.Sprintf("%s, and the server has got %x", answer, arrived)
	}
}

// exchangeBytes sends a datagram and returns the next one.
func exchangeBytes(ctx context.Context, g *lab.Guest, query []byte, to string) ([]byte, error) {
	conn, err := g.Dial(ctx, "udp", to)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := conn.Write(query); err != nil {
		return nil, err
	}
	b := make([]byte, 1<<16)
	k, err := conn.Read(b)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return b[:k], err
}

// unordered is an answer in words without their order.
func unordered(answer string) string {
	return strings.Join(slices.Sorted(strings.FieldsSeq(answer)), " ")
}

// spell puts an answer into words; what does not fit the question comes first.
func spell(query, answer []byte) string {
	r := new(dns.Msg)
	if err := r.Unpack(answer); err != nil {
		return malformed
	}
	var words []string
	if !r.Response || !bytes.Equal(answer[:2], query[:2]) {
		words = append(words, "no answer to that:")
	}
	words = append(words, dns.RcodeToString[r.Rcode])
	for _, flag := range []struct {
		set  bool
		name string
	}{{r.Authoritative, "aa"}, {r.Truncated, "tc"}, {r.IsEdns0() != nil, "edns"}} {
		if flag.set {
			words = append(words, flag.name)
		}
	}
	for i, rr := range r.Answer {
		h := rr.Header()
		if len(r.Question) == 0 || h.Name != r.Question[0].Name {
			words = append(words, "for "+h.Name)
		}
		if i == 0 && !r.Truncated {
			words = append(words, fmt.Sprint(h.Ttl))
		}
		if len(r.Answer) < 10 {
			words = append(words, strings.TrimPrefix(rr.String(), h.String()))
		}
	}
	if len(r.Answer) >= 10 && !r.Truncated {
		words = append(words, fmt.Sprint(len(r.Answer), " records"))
	}
	for _, rr := range r.Ns {
		words = append(words, dns.TypeToString[rr.Header().Rrtype], rr.Header().Name, fmt.Sprint(rr.Header().Ttl))
	}
	return strings.Join(words, " ")
}
