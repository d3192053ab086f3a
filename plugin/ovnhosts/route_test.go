// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/testkit"
)

// outside is the next plugin: it has some names and denies all others for long.
func outside(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	m := new(dns.Msg).SetReply(r)
	m.RecursionAvailable = true
	switch q := r.Question[0]; {
	case strings.HasSuffix(q.Name, "internal.org.") && q.Qtype == dns.TypeMX:
		m.Answer = []dns.RR{test.MX(q.Name + " 300 IN MX 1 mx.example.")}
	case q.Name == "db.internal.org." && q.Qtype == dns.TypeDS: // a delegation without keys
		m.Ns = []dns.RR{test.SOA("org. 300 IN SOA ns.org. mail.org. 1 1800 900 604800 300")}
	case q.Qtype == dns.TypeSRV: // the name is there
		m.Ns = []dns.RR{test.SOA(". 86400 IN SOA a.root. mail.root. 1 1800 900 604800 86400")}
	case q.Qtype == dns.TypeLOC:
		m.Rcode = dns.RcodeServerFailure
	case q.Name == "internal.org." && q.Qtype == dns.TypeTXT:
		m.Rcode = dns.RcodeNameError // of the alias's target
		m.Answer = []dns.RR{test.CNAME("internal.org. 300 IN CNAME nowhere.example.")}
	default:
		m.Rcode = dns.RcodeNameError
		m.Ns = []dns.RR{test.SOA(". 86400 IN SOA a.root. mail.root. 1 1800 900 604800 86400")}
	}
	return dns.RcodeSuccess, w.WriteMsg(m)
}

const (
	fromOutside = "NXDOMAIN ra SOA . 86400"
	refusedHere = "REFUSED"
)

// The domain itself is there, and what is above it, though no port has a name in it; so
// is a zone of the Corefile.
func TestRouteWithoutNames(t *testing.T) {
	for _, tt := range []struct{ name, zone, qname, qtype, want string }{
		{"the domain", ".", "a.green.test.", "A", "NOERROR aa SOA a.green.test. 5"},
		{"below it", ".", "b.a.green.test.", "A", "NXDOMAIN aa SOA a.green.test. 5"},
		{"above it", ".", "green.test.", "A", "NOERROR aa SOA test. 5"},
		{"above it, another type", ".", "green.test.", "DS", "NOERROR aa ra SOA test. 5"},
		{"beside it", ".", "b.green.test.", "A", fromOutside},
		{"the zone", "example.", "example.", "A", "NOERROR aa SOA example. 5"},
		{"in the zone", "example.", "a.example.", "A", "NXDOMAIN aa SOA example. 5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := openOn(t, "green", "")
			h.Zones, h.Next = []string{tt.zone}, plugin.HandlerFunc(outside)
			if tt.zone == "." {
				h.Fall, h.FallAll = fall.Root, true
			}
			if got := answered(t, h, context.Background(), tt.qname, tt.qtype); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// The zone above the domain has its DS records, even where a row has its name.
func TestRouteOfDomainWithAddress(t *testing.T) {
	h := open(t, " domain db.internal.org\n ttl 42\n fallthrough")
	h.Next = plugin.HandlerFunc(outside)
	for _, tt := range []struct{ qname, qtype, want string }{
		{"DB.internal.org.", "A", "NOERROR aa 42 10.0.0.25"},
		{"db.internal.org.", "MX", "NOERROR aa SOA db.internal.org. 5"},
		{"db.internal.org.", "DS", "NOERROR ra SOA org. 300"},
	} {
		if got := answered(t, h, context.Background(), tt.qname, tt.qtype); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.qname, tt.qtype, got, tt.want)
		}
	}
}

// A row that has the name of the domain's server counts before the address that was
// asked.
func TestServerOfRow(t *testing.T) {
	h := openOn(t, "blue", " domain example.org\n ttl 42")
	ctx := origin.NewContext(context.Background(), &origin.Origin{
		Network: h.source.Snapshot().NetworkByName("blue").ID, Port: "blue-vm3", Destination: netip.MustParseAddrPort("[fd00::254]:53"),
	})
	for _, tt := range []struct{ name, qname, qtype, want string }{
		{"its address", "ns.dns.example.org.", "A", "NOERROR aa 42 10.0.1.53"},
		{"no other one", "ns.dns.example.org.", "AAAA", "NOERROR aa SOA example.org. 5"},
		{"beside the NS record", "example.org.", "NS", "NOERROR aa 42 ns.dns.example.org. 10.0.1.53"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := answered(t, h, ctx, tt.qname, tt.qtype); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// answered is what the handler answers to a question, in short, or its rcode alone.
func answered(t *testing.T, h *Handler, ctx context.Context, qname, qtype string) string {
	t.Helper()
	w := dnstest.NewRecorder(&test.ResponseWriter{})
	r := new(dns.Msg).SetQuestion(qname, dns.StringToType[qtype])
	code, err := h.ServeDNS(ctx, w, r)
	if err != nil {
		t.Fatal(err)
	}
	if w.Msg == nil {
		return dns.RcodeToString[code]
	}
	if len(w.Msg.Question) != 1 || w.Msg.Question[0].Name != qname || w.Msg.Id != r.Id {
		t.Errorf("%s %s: answered by %v", qname, qtype, w.Msg)
	}
	return short(w.Msg)
}

// TestRoute says who answers what the network has no name for. The domain is
// example.org; there are names below internal, internal.org and apps.internal.
func TestRoute(t *testing.T) {
	const (
		bare  = "fallthrough"
		zones = "fallthrough example.org internal"
		root  = "fallthrough ."
	)
	red := func(h *Handler, hijacked bool) context.Context {
		return origin.NewContext(context.Background(), &origin.Origin{
			Network: h.source.Snapshot().NetworkByName("red").ID, Port: "red-vm1", Hijacked: hijacked,
			Destination: netip.MustParseAddrPort("[fd00::254]:53"),
		})
	}
	tests := []struct {
		qname, qtype string
		// What a guest gets that asks a resolver address, with fallthrough alone,
		// with two zones, and with the root as its zone.
		bare, zones, root string
		// other is what a guest gets that asks another server, with fallthrough
		// alone, if it differs from what one gets that asks a resolver address.
		other string
	}{
		{"missing.example.org.", "A", "NXDOMAIN aa SOA example.org. 5", fromOutside, fromOutside, "NXDOMAIN aa ra SOA example.org. 5"},
		{"a.missing.example.org.", "MX", "NXDOMAIN aa SOA example.org. 5", fromOutside, fromOutside, "NXDOMAIN aa ra SOA example.org. 5"},
		{"example.org.", "A", "NOERROR aa SOA example.org. 5", fromOutside, fromOutside, "NOERROR aa ra SOA example.org. 5"},
		{"example.org.", "MX", "NOERROR aa SOA example.org. 5", fromOutside, fromOutside, "NOERROR aa ra SOA example.org. 5"},
		// These are the parent's data.
		{"example.org.", "DS", "NOERROR aa ra SOA example.org. 5", "NOERROR aa ra SOA example.org. 5", "NOERROR aa ra SOA example.org. 5", ""},
		{"vm1.example.org.", "DS", "NOERROR aa SOA example.org. 5", "NOERROR aa SOA example.org. 5", "NOERROR aa SOA example.org. 5", ""},
		{"missing.example.org.", "DS", "NXDOMAIN aa SOA example.org. 5", fromOutside, fromOutside, "NXDOMAIN aa ra SOA example.org. 5"},
		{"example.org.", "SOA", "NOERROR aa 42 ns.dns.example.org. hostmaster.example.org. SERIAL 7200 1800 86400 5", fromOutside, fromOutside, "NOERROR aa ra 42 ns.dns.example.org. hostmaster.example.org. SERIAL 7200 1800 86400 5"},
		{"example.org.", "NS", "NOERROR aa 42 ns.dns.example.org. fd00::254", fromOutside, fromOutside, "NOERROR aa ra 42 ns.dns.example.org. fd00::254"},
		{"ns.dns.example.org.", "AAAA", "NOERROR aa 42 fd00::254", fromOutside, fromOutside, "NOERROR aa ra 42 fd00::254"},
		{"ns.dns.example.org.", "A", "NOERROR aa SOA example.org. 5", fromOutside, fromOutside, "NOERROR aa ra SOA example.org. 5"},
		{"dns.example.org.", "A", "NOERROR aa SOA example.org. 5", fromOutside, fromOutside, "NOERROR aa ra SOA example.org. 5"},
		{"vm1.example.org.", "MX", "NOERROR aa SOA example.org. 5", "NOERROR aa SOA example.org. 5", "NOERROR aa SOA example.org. 5", ""},
		{"12.0.0.10.in-addr.arpa.", "TXT", "NOERROR aa SOA in-addr.arpa. 5", "NOERROR aa SOA in-addr.arpa. 5", "NOERROR aa SOA in-addr.arpa. 5", ""},

		// Names above others: the types of the databases are denied here.
		{"internal.", "A", "NOERROR aa SOA internal. 5", fromOutside, fromOutside, "NOERROR aa ra SOA internal. 5"},
		{"internal.", "AAAA", "NOERROR aa SOA internal. 5", fromOutside, fromOutside, "NOERROR aa ra SOA internal. 5"},
		{"Apps.internal.", "ANY", "NOERROR aa SOA internal. 5", fromOutside, fromOutside, "NOERROR aa ra SOA internal. 5"},
		{"0.0.10.in-addr.arpa.", "PTR", "NOERROR aa SOA in-addr.arpa. 5", "NOERROR aa SOA in-addr.arpa. 5", fromOutside, "NOERROR aa ra SOA in-addr.arpa. 5"},
		{"org.", "A", "NOERROR aa SOA org. 5", "NOERROR aa SOA org. 5", fromOutside, "NOERROR aa ra SOA org. 5"},
		// Data of other types may be outside, but not the name's denial.
		{"internal.org.", "A", "NOERROR aa SOA org. 5", "NOERROR aa SOA org. 5", fromOutside, "NOERROR aa ra SOA org. 5"},
		{"internal.org.", "MX", "NOERROR ra 300 1 mx.example.", "NOERROR aa SOA org. 5", "NOERROR ra 300 1 mx.example.", ""},
		{"internal.org.", "TXT", "NXDOMAIN ra 300 nowhere.example.", "NOERROR aa SOA org. 5", "NXDOMAIN ra 300 nowhere.example.", ""},
		{"internal.org.", "SRV", "NOERROR ra SOA . 86400", "NOERROR aa SOA org. 5", "NOERROR ra SOA . 86400", ""},
		{"internal.org.", "LOC", "SERVFAIL ra", "NOERROR aa SOA org. 5", "SERVFAIL ra", ""},
		{"internal.org.", "NS", "NOERROR aa ra SOA org. 5", "NOERROR aa SOA org. 5", fromOutside, ""},
		{"org.", "DS", "NOERROR aa ra SOA org. 5", "NOERROR aa SOA org. 5", fromOutside, ""},
		{"internal.", "SOA", "NOERROR aa ra SOA internal. 5", fromOutside, fromOutside, ""},
		{"10.in-addr.arpa.", "SOA", "NOERROR aa ra SOA in-addr.arpa. 5", "NOERROR aa SOA in-addr.arpa. 5", fromOutside, ""},

		// What is nobody's here.
		{"missing.internal.", "A", fromOutside, fromOutside, fromOutside, ""},
		{"missing.", "A", fromOutside, "NXDOMAIN aa SOA missing. 5", fromOutside, ""},
		{`missing\.example.org.`, "A", fromOutside, "NXDOMAIN aa SOA org. 5", fromOutside, ""},
		{"ns.dns.samelen.org.", "A", fromOutside, "NXDOMAIN aa SOA org. 5", fromOutside, ""},
		{"infraexample.org.", "A", fromOutside, "NXDOMAIN aa SOA org. 5", fromOutside, ""},
		{"99.0.0.10.in-addr.arpa.", "PTR", fromOutside, "NXDOMAIN aa SOA in-addr.arpa. 5", fromOutside, ""},

		// Nobody gets a zone.
		{"example.org.", "AXFR", refusedHere, fromOutside, fromOutside, "NOERROR aa ra SOA example.org. 5"},
		{"example.org.", "IXFR", refusedHere, fromOutside, fromOutside, "NOERROR aa ra SOA example.org. 5"},
		{"vm1.example.org.", "AXFR", refusedHere, fromOutside, fromOutside, "NOERROR aa ra SOA example.org. 5"},
		{"internal.org.", "AXFR", "NOERROR aa ra SOA org. 5", refusedHere, fromOutside, ""},
		{"db.internal.", "AXFR", "NOERROR aa ra SOA internal. 5", fromOutside, fromOutside, ""},
	}
	for _, fall := range []string{bare, zones, root} {
		h := open(t, " domain example.org\n ttl 42\n "+fall)
		h.Next = plugin.HandlerFunc(outside)
		ask := func(ctx context.Context, qname, qtype string) string {
			t.Helper()
			return answered(t, h, ctx, qname, qtype)
		}
		for _, tt := range tests {
			want := map[string]string{bare: tt.bare, zones: tt.zones, root: tt.root}[fall]
			if got := ask(red(h, false), tt.qname, tt.qtype); got != want {
				t.Errorf("%s: %s %s: %s, want %s", fall, tt.qname, tt.qtype, got, want)
			}
			// A query from a socket is for the resolver too; its address is another.
			if tt.qtype != "NS" && !strings.HasPrefix(tt.qname, "ns.dns.") {
				if got := ask(context.Background(), tt.qname, tt.qtype); got != want {
					t.Errorf("%s: %s %s from a socket: %s, want %s", fall, tt.qname, tt.qtype, got, want)
				}
			}
			// A server of the guest's choice is asked whatever this one has no name
			// for. If a plugin answers in its place, the denials are ours.
			hijacked := tt.root
			switch fall {
			case bare:
				hijacked = cmp.Or(tt.other, tt.bare)
			case zones:
				hijacked = tt.zones
			}
			if got := ask(red(h, true), tt.qname, tt.qtype); got != hijacked {
				t.Errorf("%s: %s %s of another server: %s, want %s", fall, tt.qname, tt.qtype, got, hijacked)
			}
		}
	}
}

// serial is that of an SOA record, which changes.
var serial = regexp.MustCompile(`\d+ 7200`)

// short is a message in short: status and flags, the first TTL and the data of its
// records, or the owner and TTL of its SOA record.
func short(m *dns.Msg) string {
	words := []string{dns.RcodeToString[m.Rcode]}
	if m.Authoritative {
		words = append(words, "aa")
	}
	if m.RecursionAvailable {
		words = append(words, "ra")
	}
	all := slices.Concat(m.Answer, m.Extra)
	for i, data := range testkit.Data(all) {
		if i == 0 {
			words = append(words, fmt.Sprint(all[0].Header().Ttl))
		}
		words = append(words, serial.ReplaceAllString(data, "SERIAL 7200"))
	}
	for _, rr := range m.Ns {
		words = append(words, "SOA", rr.Header().Name, fmt.Sprint(rr.Header().Ttl))
	}
	return strings.Join(words, " ")
}

// TestAnswersByItself says of which names nobody else is asked: those that the asker's
// network has, and those that are denied here.
func TestAnswersByItself(t *testing.T) {
	tests := []struct {
		fall, qname string
		want        bool
	}{
		{"fallthrough", "vm1.example.org.", true},
		{"fallthrough", "vm1.", true},
		{"fallthrough", "missing.example.org.", false},
		{"fallthrough", "www.example.com.", false},
		{"fallthrough", ".", false},
		{"fallthrough example.com", "www.example.com.", false},
		{"fallthrough example.com", "missing.example.org.", true},
		{"", "www.example.com.", true},
	}
	for _, tt := range tests {
		h := open(t, " domain example.org\n "+tt.fall)
		red := &origin.Origin{Network: h.source.Snapshot().NetworkByName("red").ID, Port: "red-vm1", Hijacked: true}
		if got := h.Answers(red, tt.qname); got != tt.want {
			t.Errorf("%q: %s: got %v", tt.fall, tt.qname, got)
		}
		if h.Answers(&origin.Origin{Hijacked: true}, tt.qname) {
			t.Errorf("%q: %s is answered for somebody without a network", tt.fall, tt.qname)
		}
	}
}

// forwarding is a forwarder of one zone of one network.
type forwarding struct{ zone, network string }

func (f forwarding) Forwards(n *ovn.Network, qname string, _ uint16) bool {
	return n.Name == f.network && dns.IsSubDomain(f.zone, qname)
}

// What the network does not have goes to the servers that it has named, whatever falls through. They
// do not deny what has names of OVN below it.
func TestRouteForwarded(t *testing.T) {
	for _, fall := range []string{"", "fallthrough", "fallthrough example.com"} {
		h := open(t, " domain example.org\n ttl 42\n "+fall)
		h.Next = plugin.HandlerFunc(outside)
		for _, tt := range []struct{ name, zone, qname, qtype, want string }{
			{"known", "internal.", "db.internal.", "AAAA", "NOERROR aa 42 fd00::21"},
			{"not known", "internal.", "missing.internal.", "A", fromOutside},
			{"above others", "internal.", "internal.", "A", "NOERROR aa ra SOA internal. 5"},
			{"above others, another type", "internal.", "apps.internal.", "MX", "NOERROR aa ra SOA internal. 5"},
			{"above others, and there", "internal.org.", "internal.org.", "MX", "NOERROR ra 300 1 mx.example."},
			{"own domain", "example.org.", "missing.example.org.", "A", fromOutside},
			{"own domain itself", "example.org.", "example.org.", "A", "NOERROR aa ra SOA example.org. 5"},
		} {
			h.forwarder = forwarding{tt.zone, "red"}
			if got := answered(t, h, context.Background(), tt.qname, tt.qtype); got != tt.want {
				t.Errorf("%q: %s: %s, want %s", fall, tt.name, got, tt.want)
			}
		}
	}
}

// A forwarded name is answered here: over the limits its query must not go on to the server that the
// guest has asked, where a private zone's name would leave the node.
func TestAnswersForwarded(t *testing.T) {
	tests := []struct {
		forwards, qname string
		want            bool
	}{
		{"red", "www.corp.example.", true},
		{"red", "vm1.", true},
		{"red", "www.example.com.", false},
		{"blue", "www.corp.example.", false},
	}
	for _, fall := range []string{"fallthrough", "fallthrough ."} {
		h := open(t, " domain example.org\n "+fall)
		red := &origin.Origin{Network: h.source.Snapshot().NetworkByName("red").ID, Port: "red-vm1", Hijacked: true}
		for _, tt := range tests {
			h.forwarder = forwarding{"corp.example.", tt.forwards}
			if got := h.Answers(red, tt.qname); got != tt.want {
				t.Errorf("%s: %s while %s forwards: got %v", fall, tt.qname, tt.forwards, got)
			}
		}
		h.Zones, h.forwarder = []string{"example.org."}, forwarding{"corp.example.", "red"}
		if !h.Answers(red, "www.corp.example.") || h.Answers(red, "www.example.com.") {
			t.Errorf("%s: with a zone of its own it answers www.corp.example %v, www.example.com %v", fall, h.Answers(red, "www.corp.example."), h.Answers(red, "www.example.com."))
		}
	}
}
