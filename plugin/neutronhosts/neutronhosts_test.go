// SPDX-License-Identifier: Apache-2.0

package neutronhosts

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/testkit/golden"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	red   = "11111111-aaaa-4bbb-8ccc-000000000001"
	blue  = "11111111-aaaa-4bbb-8ccc-000000000002"
	green = "11111111-aaaa-4bbb-8ccc-000000000003"
)

// write replaces the file of a network.
func write(t testing.TB, dir, network, text string) {
	t.Helper()
	path := filepath.Join(dir, network, "addn_hosts")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// open returns a handler on a folder with two networks: the same name and the same address
// are in both. Behind it is a plugin that denies all names.
func open(t testing.TB, properties string) *Handler {
	t.Helper()
	return openDir(t, t.TempDir(), properties)
}

func openDir(t testing.TB, dir, properties string) *Handler {
	t.Helper()
	write(t, dir, red, "10.0.0.11\tdb.cloud.internal. db\nfd00::11\tdb.cloud.internal. db\n10.0.0.12\tonly-red.cloud.internal. only-red\n")
	write(t, dir, blue, "10.0.0.21\tdb.cloud.internal. db\n10.0.0.12\tonly-blue.cloud.internal. only-blue\n10.0.0.23\tbare\n")
	c := caddy.NewTestController("dns", fmt.Sprintf("neutronhosts . {\n path %s\n%s\n}", dir, properties))
	h, err := parse(c)
	if err != nil {
		t.Fatal(err)
	}
	h.Next = plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		m := new(dns.Msg).SetRcode(r, dns.RcodeNameError)
		m.RecursionAvailable = true
		return dns.RcodeSuccess, w.WriteMsg(m)
	})
	h.open()
	t.Cleanup(func() { _ = h.close() })
	return h
}

// from returns the context of a guest's query.
func from(network string) context.Context {
	return origin.NewContext(context.Background(), &origin.Origin{Switch: network, Destination: netip.MustParseAddrPort("169.254.169.254:53")})
}

// ask returns the rcode, the flags aa and ra, the data, and the owner of the SOA.
func ask(t *testing.T, h *Handler, ctx context.Context, qname, qtype string) string {
	t.Helper()
	w := dnstest.NewRecorder(&test.ResponseWriter{})
	code, err := h.ServeDNS(ctx, w, new(dns.Msg).SetQuestion(qname, dns.StringToType[qtype]))
	if err != nil {
		t.Fatal(err)
	}
	if w.Msg == nil {
		return dns.RcodeToString[code]
	}
	words := []string{dns.RcodeToString[w.Msg.Rcode]}
	if w.Msg.Authoritative {
		words = append(words, "aa")
	}
	if w.Msg.RecursionAvailable {
		words = append(words, "ra")
	}
	for i, data := range testkit.Data(w.Msg.Answer) {
		words = append(words, w.Msg.Answer[i].Header().Name, data)
	}
	for _, rr := range w.Msg.Ns {
		words = append(words, "SOA", rr.Header().Name)
	}
	return strings.Join(words, " ")
}

func TestServeDNS(t *testing.T) {
	h := open(t, " fallthrough\n domain corefile.example")
	for _, tt := range []struct{ name, network, qname, qtype, want string }{
		{"A", red, "db.cloud.internal.", "A", "NOERROR aa db.cloud.internal. 10.0.0.11"},
		{"bare", red, "db.", "A", "NOERROR aa db. 10.0.0.11"},
		{"AAAA, and the question's case", red, "DB.cloud.Internal.", "AAAA", "NOERROR aa DB.cloud.Internal. fd00::11"},
		{"ANY", red, "db.", "ANY", "NOERROR aa db. 10.0.0.11 db. fd00::11"},
		{"PTR", red, "11.0.0.10.in-addr.arpa.", "PTR", "NOERROR aa 11.0.0.10.in-addr.arpa. db.cloud.internal."},
		{"another type", red, "only-red.", "AAAA", "NOERROR aa SOA only-red."},
		{"the own domain is not passed on", red, "nowhere.cloud.internal.", "A", "NXDOMAIN aa SOA cloud.internal."},
		{"the domain itself", red, "cloud.internal.", "NS", "NOERROR aa cloud.internal. ns.dns.cloud.internal."},
		{"above names", red, "internal.", "A", "NOERROR aa SOA internal."},
		{"outside", red, "example.org.", "A", "NXDOMAIN ra"},
		{"a transfer", red, "cloud.internal.", "AXFR", "REFUSED"},
		{"the root", red, ".", "NS", "NXDOMAIN ra"},
		{"a bare name of the file, completed", blue, "bare.corefile.example.", "A", "NOERROR aa bare.corefile.example. 10.0.0.23"},
		{"no file of the network", green, "db.", "A", "NXDOMAIN ra"},
		{"no network", "", "db.", "A", "NXDOMAIN ra"},
		{"a path as a network", "../" + red, "db.", "A", "NXDOMAIN ra"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := ask(t, h, from(tt.network), tt.qname, tt.qtype); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
	if got := ask(t, h, context.Background(), "db.", "A"); got != "NXDOMAIN ra" {
		t.Errorf("from a socket: %s", got)
	}
	// A logical switch of OVN may have any name.
	ovn := origin.NewContext(context.Background(), &origin.Origin{Network: origin.Network{1}, Switch: red})
	if got := ask(t, h, ovn, "db.", "A"); got != "NXDOMAIN ra" {
		t.Errorf("from a switch of OVN with the name of a network: %s", got)
	}
}

// Networks with equal names and addresses do not see each other.
func TestIsolation(t *testing.T) {
	h := open(t, " fallthrough")
	for _, tt := range []struct{ qname, qtype, red, blue string }{
		{"db.cloud.internal.", "A", "NOERROR aa db.cloud.internal. 10.0.0.11", "NOERROR aa db.cloud.internal. 10.0.0.21"},
		{"db.", "AAAA", "NOERROR aa db. fd00::11", "NOERROR aa SOA db."},
		{"12.0.0.10.in-addr.arpa.", "PTR", "NOERROR aa 12.0.0.10.in-addr.arpa. only-red.cloud.internal.", "NOERROR aa 12.0.0.10.in-addr.arpa. only-blue.cloud.internal."},
		{"only-red.cloud.internal.", "A", "NOERROR aa only-red.cloud.internal. 10.0.0.12", "NXDOMAIN aa SOA cloud.internal."},
		{"only-blue.", "A", "NXDOMAIN ra", "NOERROR aa only-blue. 10.0.0.12"},
		{"11.0.0.10.in-addr.arpa.", "PTR", "NOERROR aa 11.0.0.10.in-addr.arpa. db.cloud.internal.", "NXDOMAIN ra"},
	} {
		for network, want := range map[string]string{red: tt.red, blue: tt.blue} {
			if got := ask(t, h, from(network), tt.qname, tt.qtype); got != want {
				t.Errorf("%s %s in %s: %s, want %s", tt.qname, tt.qtype, network, got, want)
			}
		}
	}
}

// A network whose file can't be read may have any name: no other plugin is asked.
func TestUnread(t *testing.T) {
	dir := t.TempDir()
	h := openDir(t, dir, " fallthrough")
	path := filepath.Join(dir, green, "addn_hosts")
	if err := os.MkdirAll(path, 0o755); err != nil { // a folder is a file that root can't read either
		t.Fatal(err)
	}
	testkit.OnChange(t, h.source, "unread", func() bool { return ask(t, h, from(green), "db.", "A") == "SERVFAIL" })
	if !h.Answers(&origin.Origin{Switch: green}, "example.org.") {
		t.Error("a query that there is no room for goes on to its destination")
	}
	if got := ask(t, h, from(red), "example.org.", "A"); got != "NXDOMAIN ra" {
		t.Errorf("in another network: %s", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, dir, green, "10.0.0.31\tdb\n")
	testkit.OnChange(t, h.source, "read", func() bool { return ask(t, h, from(green), "db.", "A") == "NOERROR aa db. 10.0.0.31" })
	// What was read stays. The link takes the place of the file in one step: for a moment without
	// either the network would have no names.
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link, path); err != nil {
		t.Fatal(err)
	}
	testkit.OnChange(t, h.source, "not ready", func() bool { return !h.Ready() })
	if got := ask(t, h, from(green), "db.", "A"); got != "NOERROR aa db. 10.0.0.31" {
		t.Errorf("after it was read: %s", got)
	}
}

func TestAnswers(t *testing.T) {
	h := open(t, " fallthrough")
	for _, tt := range []struct {
		network, qname string
		all            bool
		want           bool
	}{
		{red, "db.", true, true},
		{red, "example.org.", true, false},
		{red, "example.org.", false, true},
		{red, ".", false, false},
		{green, "db.", false, false},
	} {
		if !tt.all {
			h.Fall.Zones = nil
		}
		if got := h.Answers(&origin.Origin{Switch: tt.network}, tt.qname); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
	if h.OVNOwned(&origin.Origin{Switch: red}, "db.") {
		t.Error("a name is owned by OVN")
	}
}

func TestReady(t *testing.T) {
	var none Handler
	if got := none.NotReady(); len(got) != 1 || got[0] != "the plugins are being started" {
		t.Errorf("before any is open: %q", got)
	}
	h := open(t, "")
	if !h.Ready() {
		t.Errorf("%q", h.NotReady())
	}
	// Pipes are files that can't be read for root either.
	for _, n := range []string{"4", "5", "6", "7"} {
		path := filepath.Join(h.path, strings.TrimSuffix(red, "1")+n, "addn_hosts")
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	testkit.OnChange(t, h.source, "all reasons", func() bool { return len(h.NotReady()) == maxReasons+1 })
	got := h.NotReady()
	if h.Ready() || !strings.HasSuffix(got[0], "not a regular file") || !strings.HasSuffix(got[maxReasons], ": 1 further files or folders can't be read") {
		t.Errorf("%q", got)
	}
}

func TestMetricsAndMetadata(t *testing.T) {
	h := open(t, "")
	counter := answers.WithLabelValues("", "", "port")
	before := testkit.Value(t, counter)
	ctx := metadata.ContextWithMetadata(from(red))
	ctx = h.Metadata(ctx, request.Request{})
	if got := ask(t, h, ctx, "db.", "A"); got != "NOERROR aa db. 10.0.0.11" {
		t.Fatal(got)
	}
	if got := metadata.ValueFunc(ctx, "neutronhosts/answer")(); got != "port" {
		t.Errorf("label %q", got)
	}
	if got := testkit.Value(t, counter) - before; got != 1 {
		t.Errorf("%v answers counted", got)
	}
	got := map[string]float64{}
	for _, s := range testkit.Collect(t, series.Collector(scrape)) {
		if !maps.Equal(s.Labels, map[string]string{"path": h.path}) {
			t.Errorf("%s has the labels %v", s.Name, s.Labels)
		}
		got[strings.TrimPrefix(s.Name, "coredns_neutronhosts_")] = s.Value
	}
	if got["networks"] != 2 || got["names"] != 9 || got["files_unread"] != 0 || got["bad_lines_total"] != 0 || got["snapshot_timestamp_seconds"] < 1e9 {
		t.Errorf("%v", got)
	}
}

func TestParse(t *testing.T) {
	h, err := parse(caddy.NewTestController("dns", "neutronhosts red.example. {\n path /run/dhcp/\n domain Red.Example\n ttl 0\n fallthrough org\n}"))
	if err != nil {
		t.Fatal(err)
	}
	if h.path != "/run/dhcp" || h.Domain != "red.example." || h.TTL != 0 || h.FallAll || !h.Fall.Through("a.org.") || h.Zones[0] != "red.example." {
		t.Errorf("%+v", h)
	}
	if h, err = parse(caddy.NewTestController("dns", "neutronhosts .")); err != nil || h.path != defaultPath || h.TTL != 30 {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestParseRefuses(t *testing.T) {
	// Where another package refuses, want has what the error names; else testdata/messages.golden has the error.
	for _, tt := range []struct{ name, input, want string }{
		{"unknown property", "neutronhosts . {\n colour red\n}", `:2 .*"colour".*\[domain fallthrough path `},
		{"twice", "neutronhosts .\nneutronhosts", `:2 .*neutronhosts`},
		{"a bad zone", "neutronhosts a..b", `:1 .*"a\.\.b"`},
		{"the root as its domain", "neutronhosts . {\n domain .\n}", `:2 .* domain: "\."`},
		{"two paths", "neutronhosts . {\n path /a /b\n}", `:2 .* path: \["/a" "/b"\]`},
		{"a relative path", "neutronhosts . {\n path dhcp\n}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(caddy.NewTestController("dns", tt.input))
			golden.Refusal(t, err, "Testfile", tt.want)
		})
	}
}

// BenchmarkServeDNS answers a name of the asker's network.
func BenchmarkServeDNS(b *testing.B) {
	h := open(b, " fallthrough")
	ctx, w, r := from(red), &test.ResponseWriter{}, new(dns.Msg).SetQuestion("db.cloud.internal.", dns.TypeA)
	b.ReportAllocs()
	for b.Loop() {
		if code, err := h.ServeDNS(ctx, w, r); code != dns.RcodeSuccess || err != nil {
			b.Fatal(code, err)
		}
	}
}
