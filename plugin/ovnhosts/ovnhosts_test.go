// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/coredns/coredns/request"
	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/testkit"
)

type object = map[string]any

// set and pairs are values in the notation of RFC 7047, section 5.1.
func set(vs ...any) any { return []any{"set", vs} }

func pairs(kv ...string) any {
	m := make([][2]string, 0, len(kv)/2)
	for i := 0; i+1 < len(kv); i += 2 {
		m = append(m, [2]string{kv[i], kv[i+1]})
	}
	return []any{"map", m}
}

func insert(table, id string, row object) object {
	return object{"op": "insert", "table": table, "uuid-name": id, "row": row}
}

func named(id string) any { return []any{"named-uuid", id} }

// open gives a handler on a Northbound database with two switches that a router
// joins: red with two ports and a DNS row, and blue with a port and a DNS row that has
// the server of the domain example.org. A third one, green, has nothing but a domain.
// The default switch is red.
func open(t testing.TB, input string) *Handler {
	t.Helper()
	return openOn(t, "red", input)
}

// openOn is open with another default switch.
func openOn(t testing.TB, defaultSwitch, input string) *Handler {
	t.Helper()
	h := openFrom(t, startNorthbound(t), defaultSwitch, input)
	awaitRead(t, h)
	return h
}

// startNorthbound starts a Northbound with the switches red, blue and green.
func startNorthbound(t testing.TB) *ovsdbtest.Server {
	t.Helper()
	s := ovsdbtest.Start(t, "/usr/share/ovn/ovn-nb.ovsschema")
	s.Transact(t, "OVN_Northbound",
		insert("Logical_Switch_Port", "vm1", object{
			"name": "red-vm1", "addresses": set("02:00:00:00:00:11 10.0.0.11 fd00::11"), "options": pairs("hostname", "vm1"),
		}),
		insert("Logical_Switch_Port", "vm2", object{
			"name": "red-vm2", "addresses": set("02:00:00:00:00:12 10.0.0.12"), "options": pairs("hostname", "VM2"),
		}),
		insert("DNS", "dns", object{"records": pairs(
			"db.internal", "10.0.0.21,10.0.0.22 fd00::21",
			"UPPER.internal", "10.0.0.23",
			"30.0.0.10.in-addr.arpa", "thirty.internal",
			"*.apps.internal", "10.0.0.24",
			"db.internal.org", "10.0.0.25",
		)}),
		insert("Logical_Switch_Port", "gw1", object{"name": "red-gw", "type": "router", "options": pairs("router-port", "r-red")}),
		insert("Logical_Switch", "red", object{
			"name": "red", "ports": set(named("vm1"), named("vm2"), named("gw1")), "dns_records": set(named("dns")),
		}),
		insert("Logical_Switch_Port", "vm3", object{
			"name": "blue-vm3", "addresses": set("02:00:00:00:00:13 10.0.1.13"), "options": pairs("hostname", "vm3"),
		}),
		insert("Logical_Switch_Port", "gw2", object{"name": "blue-gw", "type": "router", "options": pairs("router-port", "r-blue")}),
		insert("DNS", "server", object{"records": pairs("ns.dns.example.org", "10.0.1.53")}),
		insert("Logical_Switch", "blue", object{
			"name": "blue", "ports": set(named("vm3"), named("gw2")), "dns_records": set(named("server")),
		}),
		insert("Logical_Switch", "green", object{"name": "green", "other_config": pairs("dns_domain", "a.green.test")}),
		insert("Logical_Router_Port", "rp1", object{"name": "r-red", "mac": "02:00:00:00:00:01", "networks": "10.0.0.1/24"}),
		insert("Logical_Router_Port", "rp2", object{"name": "r-blue", "mac": "02:00:00:00:00:02", "networks": "10.0.1.1/24"}),
		insert("Logical_Router", "r", object{"name": "r", "ports": set(named("rp1"), named("rp2"))}),
	)
	return s
}

// openFrom opens a handler that reads a Northbound.
func openFrom(t testing.TB, s *ovsdbtest.Server, defaultSwitch, input string) *Handler {
	t.Helper()
	h, err := parse(caddy.NewTestController("dns", fmt.Sprintf("ovnhosts . {\n northbound %s\n default_switch %s\n%s\n}", s.Endpoint, defaultSwitch, input)))
	if err != nil {
		t.Fatal(err)
	}
	h.Next = plugin.HandlerFunc(func(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) { return dns.RcodeRefused, nil })
	if err := h.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.close() })
	return h
}

// awaitRead waits until the handler knows the scope of a query from a socket.
func awaitRead(t testing.TB, h *Handler) {
	t.Helper()
	testkit.OnChange(t, h.source, "the network", func() bool {
		a := h.asker(context.Background(), h.source.Snapshot())
		return a.scope.Own != nil && !a.unread
	})
}

func TestServeDNS(t *testing.T) {
	h := open(t, " domain example.org\n ttl 42")
	const soa = "5 IN SOA"
	tests := []struct {
		name, qname string
		qtype       uint16
		rcode       int
		answer      []string
		authority   string
		table       string
	}{
		{"A, several addresses", "db.internal.", dns.TypeA, 0,
			[]string{"db.internal. 42 IN A 10.0.0.21", "db.internal. 42 IN A 10.0.0.22"}, "", "dns"},
		{"AAAA", "db.internal.", dns.TypeAAAA, 0, []string{"db.internal. 42 IN AAAA fd00::21"}, "", "dns"},
		{"ANY is A, then AAAA", "db.internal.", dns.TypeANY, 0,
			[]string{"db.internal. 42 IN A 10.0.0.21", "db.internal. 42 IN A 10.0.0.22", "db.internal. 42 IN AAAA fd00::21"}, "", "dns"},
		{"the question's case", "dB.InTernal.", dns.TypeAAAA, 0, []string{"dB.InTernal. 42 IN AAAA fd00::21"}, "", "dns"},
		{"a key's case does not matter", "upper.internal.", dns.TypeA, 0, []string{"upper.internal. 42 IN A 10.0.0.23"}, "", "dns"},
		{"hostname", "vm1.", dns.TypeA, 0, []string{"vm1. 42 IN A 10.0.0.11"}, "", "port"},
		{"hostname with domain", "vm2.example.org.", dns.TypeA, 0, []string{"vm2.example.org. 42 IN A 10.0.0.12"}, "", "port"},
		{"PTR of a row", "30.0.0.10.in-addr.arpa.", dns.TypePTR, 0, []string{"30.0.0.10.in-addr.arpa. 42 IN PTR thirty.internal."}, "", "dns"},
		{"PTR derived from a port", "12.0.0.10.in-addr.arpa.", dns.TypePTR, 0, []string{"12.0.0.10.in-addr.arpa. 42 IN PTR vm2.example.org."}, "", "port"},
		{"PTR derived from a record", "22.0.0.10.in-addr.arpa.", dns.TypePTR, 0, []string{"22.0.0.10.in-addr.arpa. 42 IN PTR db.internal."}, "", "dns"},
		{"known name, other type", "vm2.example.org.", dns.TypeAAAA, 0, nil, "example.org. " + soa, "port"},
		{"known name, HTTPS", "db.internal.", dns.TypeHTTPS, 0, nil, "internal. " + soa, "dns"},
		{"known name, no domain of ours", "vm2.", dns.TypeTXT, 0, nil, "vm2. " + soa, "port"},
		{"unknown name", "nosuch.example.com.", dns.TypeA, dns.RcodeNameError, nil, "com. " + soa, ""},
		{"unknown name in the domain", "nosuch.example.org.", dns.TypeA, dns.RcodeNameError, nil, "example.org. " + soa, ""},
		{"unknown address", "99.0.0.10.in-addr.arpa.", dns.TypePTR, dns.RcodeNameError, nil, "in-addr.arpa. " + soa, ""},
		{"a name above others", "internal.", dns.TypeA, 0, nil, "internal. " + soa, ""},
		{"a zone above addresses", "10.in-addr.arpa.", dns.TypeNS, 0, nil, "in-addr.arpa. " + soa, ""},
		{"SOA of the domain", "Example.org.", dns.TypeSOA, 0,
			[]string{"Example.org. 42 IN SOA ns.dns.example.org. hostmaster.example.org. SERIAL 7200 1800 86400 5"}, "", "zone"},
		{"NS of the domain", "Example.org.", dns.TypeNS, 0, []string{"Example.org. 42 IN NS ns.dns.example.org."}, "", "zone"},
		{"its server", "NS.dns.example.org.", dns.TypeA, 0, []string{"NS.dns.example.org. 42 IN A 127.0.0.1"}, "", "zone"},
		{"its server, by the other family", "ns.dns.example.org.", dns.TypeAAAA, 0, nil, "example.org. " + soa, ""},
		{"above its server", "dns.example.org.", dns.TypeA, 0, nil, "example.org. " + soa, ""},
		{"beside its server", "nt.dns.example.org.", dns.TypeA, dns.RcodeNameError, nil, "example.org. " + soa, ""},
		{"ANY of the domain", "example.org.", dns.TypeANY, 0, []string{
			"example.org. 42 IN SOA ns.dns.example.org. hostmaster.example.org. SERIAL 7200 1800 86400 5",
			"example.org. 42 IN NS ns.dns.example.org.",
		}, "", "zone"},
		{"the domain, another type", "example.org.", dns.TypeA, 0, nil, "example.org. " + soa, ""},
		{"the domain, the parent's type", "example.org.", dns.TypeDS, 0, nil, "example.org. " + soa, ""},
		{"above the domain", "org.", dns.TypeSOA, 0, nil, "org. " + soa, ""},
		{"wildcard, in the question's case", "A.Shop.apps.internal.", dns.TypeA, 0, []string{"A.Shop.apps.internal. 42 IN A 10.0.0.24"}, "", "dns"},
		{"wildcard, other type", "shop.apps.internal.", dns.TypeAAAA, 0, nil, "internal. " + soa, "dns"},
		{"no PTR of a wildcard", "24.0.0.10.in-addr.arpa.", dns.TypePTR, dns.RcodeNameError, nil, "in-addr.arpa. " + soa, ""},
		{"of a switch that a router joins", "vm3.", dns.TypeA, dns.RcodeNameError, nil, "vm3. " + soa, ""},
		{"a dot inside a label", `db\.internal.`, dns.TypeA, dns.RcodeNameError, nil, `db\.internal. ` + soa, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := new(dns.Msg)
			r.SetQuestion(tt.qname, tt.qtype)
			w := dnstest.NewRecorder(&test.ResponseWriter{})
			ctx := h.Metadata(metadata.ContextWithMetadata(context.Background()), request.Request{W: w, Req: r})
			code, err := h.ServeDNS(ctx, w, r)
			if err != nil || code != dns.RcodeSuccess {
				t.Fatal(code, err)
			}
			if w.Msg.Rcode != tt.rcode || !w.Msg.Authoritative {
				t.Errorf("rcode %d, AA %v", w.Msg.Rcode, w.Msg.Authoritative)
			}
			var got []string
			for _, rr := range w.Msg.Answer {
				if soa, ok := rr.(*dns.SOA); ok && soa.Serial != uint32(h.source.Snapshot().Time.Unix()) {
					t.Errorf("serial %d, want the time of the snapshot", soa.Serial)
				}
				got = append(got, strings.ReplaceAll(serial.ReplaceAllString(rr.String(), "SERIAL 7200"), "\t", " "))
			}
			if d := cmp.Diff(tt.answer, got); d != "" {
				t.Error(d)
			}
			authority := ""
			if len(w.Msg.Ns) > 0 {
				authority = strings.ReplaceAll(w.Msg.Ns[0].String(), "\t", " ")
			}
			if !strings.HasPrefix(authority, tt.authority) || tt.authority == "" && authority != "" {
				t.Errorf("authority %q, want %q", authority, tt.authority)
			}
			if table := metadata.ValueFunc(ctx, "ovnhosts/answer")(); table != tt.table {
				t.Errorf("ovnhosts/answer is %q, want %q", table, tt.table)
			}
		})
	}
}

func TestFallthrough(t *testing.T) {
	h := open(t, " fallthrough org")
	tests := []struct {
		name, qname string
		qtype       uint16
		code        int // of the next plugin, or of the message
	}{
		{"unknown below the zone", "nosuch.org.", dns.TypeA, dns.RcodeRefused},
		{"above others", "internal.org.", dns.TypeA, dns.RcodeRefused},
		{"unknown elsewhere", "nosuch.com.", dns.TypeA, dns.RcodeNameError},
		{"known, other type", "db.internal.", dns.TypeMX, dns.RcodeSuccess},
		{"the root", ".", dns.TypeNS, dns.RcodeRefused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := new(dns.Msg)
			r.SetQuestion(tt.qname, tt.qtype)
			w := dnstest.NewRecorder(&test.ResponseWriter{})
			code, err := h.ServeDNS(context.Background(), w, r)
			if err != nil {
				t.Fatal(err)
			}
			if w.Msg != nil {
				code = w.Msg.Rcode
			}
			if code != tt.code {
				t.Errorf("got %s, want %s", dns.RcodeToString[code], dns.RcodeToString[tt.code])
			}
		})
	}
}

// TestScopeRouter: the switches that a router joins share their names.
func TestScopeRouter(t *testing.T) {
	h := open(t, " scope router\n domain example.org")
	for _, tt := range []struct {
		name, qname string
		qtype       uint16
		want        string
	}{
		{"own", "vm1.", dns.TypeA, "10.0.0.11"},
		{"of the other switch", "vm3.example.org.", dns.TypeA, "10.0.1.13"},
		{"its address", "13.1.0.10.in-addr.arpa.", dns.TypePTR, "vm3.example.org."},
		{"nobody's", "vm4.", dns.TypeA, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := new(dns.Msg)
			r.SetQuestion(tt.qname, tt.qtype)
			w := dnstest.NewRecorder(&test.ResponseWriter{})
			if _, err := h.ServeDNS(context.Background(), w, r); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(testkit.Data(w.Msg.Answer), " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// As long as it is not read what routers join to the asker's network, that network answers,
// and nobody denies what it does not know.
func TestScopeRouterUnread(t *testing.T) {
	h := open(t, " fallthrough")
	h.routers = true // and the source is not asked for it
	var said testkit.Lines
	h.config.Log = &said
	for _, tt := range []struct {
		name, qname, port string // no port: from a socket
		code              int
	}{
		{"own", "vm1.", "red-vm1", dns.RcodeSuccess},
		{"of the other switch", "vm3.", "red-vm1", dns.RcodeServerFailure},
		{"nobody's", "vm4.", "red-vm1", dns.RcodeServerFailure},
		{"own, from a socket", "vm1.", "", dns.RcodeSuccess},
		{"nobody's, from a socket", "vm4.", "", dns.RcodeServerFailure},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := context.Background()
			if tt.port != "" {
				o := &origin.Origin{Network: h.source.Snapshot().NetworkByName("red").ID, Port: tt.port, Hijacked: true}
				ctx = origin.NewContext(ctx, o)
				if !h.Answers(o, tt.qname) {
					t.Error("others may answer for the name")
				}
			}
			w := dnstest.NewRecorder(&test.ResponseWriter{})
			code, err := h.ServeDNS(ctx, w, new(dns.Msg).SetQuestion(tt.qname, dns.TypeA))
			if code != tt.code || err != nil {
				t.Errorf("got %s, %v, want %s", dns.RcodeToString[code], err, dns.RcodeToString[tt.code])
			}
		})
	}
	// The log does not grow with the queries.
	if all := said.All(); len(all) != 1 || !strings.Contains(all[0], `the switch "red" has not been read yet`) {
		t.Errorf("said %q, want one line", all)
	}
	defer h.source.Request(ovndb.Requests{Routers: true})()
	awaitRead(t, h)
	for range 2 {
		w := dnstest.NewRecorder(&test.ResponseWriter{})
		if _, err := h.ServeDNS(context.Background(), w, new(dns.Msg).SetQuestion("vm3.", dns.TypeA)); err != nil || w.Msg == nil || len(w.Msg.Answer) != 1 {
			t.Error("not answered once the scope is read", w.Msg, err)
		}
	}
	if all := said.All(); len(all) != 2 || !strings.Contains(all[1], `the switch "red" has been read`) {
		t.Errorf("said %q, want one line more", all)
	}
}

// The domain of a port counts in the network of the port only: an asker with the name of a port that
// has moved has the domain of its own network.
func TestDomainOfPort(t *testing.T) {
	s := startNorthbound(t)
	s.Transact(t, "OVN_Northbound",
		insert("DHCP_Options", "dhcp", object{"cidr": "10.0.2.0/24", "options": pairs("domain_name", "port.test")}),
		insert("Logical_Switch_Port", "vm4", object{
			"name": "yellow-vm4", "addresses": set("02:00:00:00:00:14 10.0.2.14"), "dhcpv4_options": named("dhcp"),
		}),
		insert("Logical_Switch", "yellow", object{"name": "yellow", "ports": named("vm4")}),
	)
	yellow, red := openFrom(t, s, "yellow", "domain example.org"), openFrom(t, s, "red", "domain example.org")
	awaitRead(t, yellow)
	awaitRead(t, red)
	snapshot := red.source.Snapshot()
	for h, want := range map[*Handler]string{yellow: "port.test.", red: "example.org."} {
		n, _ := snapshot.Resolve(h.defaultSwitch)
		o := &origin.Origin{Network: n.ID, Port: "yellow-vm4"}
		if got := h.asker(origin.NewContext(t.Context(), o), snapshot).domain; got != want {
			t.Errorf("in network %s: domain %q, want %q", n.Name, got, want)
		}
	}
}

// Who comes from a network that nobody knows gets none of the default switch's
// names.
func TestUnknownOrigin(t *testing.T) {
	h := open(t, "")
	ctx := origin.NewContext(context.Background(), &origin.Origin{Network: origin.Network{1}, Port: "red-vm1"})
	r := new(dns.Msg)
	r.SetQuestion("db.internal.", dns.TypeA)
	w := dnstest.NewRecorder(&test.ResponseWriter{})
	code, err := h.ServeDNS(ctx, w, r)
	if err != nil || code != dns.RcodeRefused || w.Msg != nil {
		t.Errorf("got %d, %v, %v, want the next plugin's answer", code, err, w.Msg)
	}
}

// A name that is meant for a switch goes nowhere else while that is not known.
func TestUnknownDefaultSwitch(t *testing.T) {
	h := open(t, " fallthrough")
	h.defaultSwitch = ovn.SwitchRef{Name: "rde"}
	r := new(dns.Msg).SetQuestion("db.internal.", dns.TypeA)
	w := dnstest.NewRecorder(&test.ResponseWriter{})
	code, err := h.ServeDNS(context.Background(), w, r)
	if err == nil || code != dns.RcodeServerFailure || w.Msg != nil {
		t.Errorf("got %d, %v, %v, want SERVFAIL", code, err, w.Msg)
	}
}

// A name that several switches have gives the names of none of them, whatever else the
// database has; the UUID of one still does.
func TestAmbiguousDefaultSwitch(t *testing.T) {
	const twin = "77777777-7777-4777-8777-777777777777"
	s := startNorthbound(t)
	byName := openFrom(t, s, "red", " fallthrough")
	awaitRead(t, byName)
	byUUID := openFrom(t, s, byName.asker(context.Background(), byName.source.Snapshot()).scope.Own.ID.String(), " fallthrough")
	twinByUUID := openFrom(t, s, strings.ToUpper(twin), " fallthrough")
	awaitRead(t, byUUID)
	ask := func(h *Handler) string {
		w := dnstest.NewRecorder(&test.ResponseWriter{})
		code, err := h.ServeDNS(context.Background(), w, new(dns.Msg).SetQuestion("vm1.", dns.TypeA))
		if w.Msg == nil {
			return fmt.Sprint(dns.RcodeToString[code], " ", err)
		}
		return w.Msg.Answer[0].(*dns.A).A.String()
	}
	for _, step := range []struct {
		name                     string
		ops                      []any
		byName, byUUID, twinByID string
	}{
		{"one", nil, "10.0.0.11", "10.0.0.11", "SERVFAIL plugin/ovnhosts: the default switch " + twin + " is not known"},
		{"two", []any{
			insert("DNS", "row", object{"records": pairs("vm1", "192.0.2.1")}),
			object{"op": "insert", "table": "Logical_Switch", "uuid": twin, "row": object{"name": "red", "dns_records": named("row")}},
		},
			`SERVFAIL plugin/ovnhosts: the default switch "red" is ambiguous: 2 logical switches have that name; expected one, or a UUID`, "10.0.0.11", "192.0.2.1"},
		{"one again", []any{object{"op": "delete", "table": "Logical_Switch", "where": []any{[]any{"_uuid", "==", []any{"uuid", twin}}}}},
			"10.0.0.11", "10.0.0.11", "SERVFAIL plugin/ovnhosts: the default switch " + twin + " is not known"},
	} {
		t.Run(step.name, func(t *testing.T) {
			if step.ops != nil {
				s.Transact(t, "OVN_Northbound", step.ops...)
			}
			for _, tt := range []struct {
				h    *Handler
				want string
			}{{byName, step.byName}, {byUUID, step.byUUID}, {twinByUUID, step.twinByID}} {
				testkit.OnChange(t, tt.h.source, fmt.Sprint(tt.h.defaultSwitch), func() error {
					if got := ask(tt.h); got != tt.want {
						return fmt.Errorf("%s, want %s", got, tt.want)
					}
					return nil
				})
			}
		})
	}
}

// With shuffle on, each address of a name comes first now and then, and nothing else of an
// answer changes: the families stay apart.
func TestShuffle(t *testing.T) {
	for _, tt := range []struct {
		shuffle string
		orders  int
	}{{"", 1}, {"shuffle off", 1}, {"shuffle on", 2}} {
		t.Run(tt.shuffle, func(t *testing.T) {
			h := open(t, tt.shuffle)
			seen := map[string]bool{}
			// That an order of two does not come has a probability of 2^-199.
			for range 200 {
				w := dnstest.NewRecorder(&test.ResponseWriter{})
				if _, err := h.ServeDNS(t.Context(), w, new(dns.Msg).SetQuestion("db.internal.", dns.TypeANY)); err != nil {
					t.Fatal(err)
				}
				seen[strings.Join(testkit.Data(w.Msg.Answer), " ")] = true
			}
			want := map[string]bool{"10.0.0.21 10.0.0.22 fd00::21": true}
			if tt.orders == 2 {
				want["10.0.0.22 10.0.0.21 fd00::21"] = true
			}
			if d := cmp.Diff(want, seen); d != "" {
				t.Error(d)
			}
		})
	}
}
