// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"net"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/testkit/golden"
)

func TestParse(t *testing.T) {
	sb := []string{"unix:/var/run/ovn/ovnsb_db.sock"}
	tests := []struct {
		name, input string
		config      ovndb.Config
		zones       []string
		domain      string
		ttl         uint32
		byDefault   ovn.SwitchRef
		routers     bool
		through     string // a name that falls through
	}{
		{"defaults", "ovnhosts", ovndb.Config{Southbound: sb}, []string{"."}, "", 30, ovn.SwitchRef{}, false, ""},
		{"zones", "ovnhosts Example.org 10.0.0.0/8", ovndb.Config{Southbound: sb}, []string{"example.org.", "10.in-addr.arpa."}, "", 30, ovn.SwitchRef{}, false, ""},
		{"both databases", "ovnhosts {\n southbound tcp:10.0.0.1:6642 tcp:10.0.0.2:6642\n northbound ssl:[::1]:6641\n monitor all\n tls c k a\n}",
			ovndb.Config{
				Southbound: []string{"tcp:10.0.0.1:6642", "tcp:10.0.0.2:6642"}, Northbound: []string{"ssl:[::1]:6641"},
				Monitor: ovndb.All, TLS: endpoint.TLSFiles{Cert: "c", Key: "k", CA: "a"},
			}, []string{"."}, "", 30, ovn.SwitchRef{}, false, ""},
		{"as ovn-remote has it", "ovnhosts {\n southbound \"tcp:10.0.0.1:6642,tcp:10.0.0.2:6642\"\n}",
			ovndb.Config{Southbound: []string{"tcp:10.0.0.1:6642", "tcp:10.0.0.2:6642"}}, []string{"."}, "", 30, ovn.SwitchRef{}, false, ""},
		{"with commas and spaces", "ovnhosts {\n southbound tcp:10.0.0.1:6642, tcp:10.0.0.2:6642\n}",
			ovndb.Config{Southbound: []string{"tcp:10.0.0.1:6642", "tcp:10.0.0.2:6642"}}, []string{"."}, "", 30, ovn.SwitchRef{}, false, ""},
		{"a path with a comma", "ovnhosts {\n southbound unix:/a,b,tcp:10.0.0.1:6642\n}",
			ovndb.Config{Southbound: []string{"unix:/a,b", "tcp:10.0.0.1:6642"}}, []string{"."}, "", 30, ovn.SwitchRef{}, false, ""},
		{"Northbound only", "ovnhosts {\n northbound unix:/nb\n}", ovndb.Config{Northbound: []string{"unix:/nb"}}, []string{"."}, "", 30, ovn.SwitchRef{}, false, ""},
		{"names", "ovnhosts {\n domain Red.Example\n ttl 0\n scope switch\n default_switch red\n fallthrough org\n}",
			ovndb.Config{Southbound: sb}, []string{"."}, "red.example.", 0, ovn.SwitchRef{Name: "red"}, false, "a.org."},
		{"a switch by its UUID", "ovnhosts {\n default_switch 3E0F6F0C-5c1e-4c5b-8b3a-0d6a3b0d7c11\n}", ovndb.Config{Southbound: sb}, []string{"."}, "", 30,
			ovn.SwitchRef{ID: origin.Network{0x3e, 0x0f, 0x6f, 0x0c, 0x5c, 0x1e, 0x4c, 0x5b, 0x8b, 0x3a, 0x0d, 0x6a, 0x3b, 0x0d, 0x7c, 0x11}}, false, ""},
		{"a switch by a name with a UUID in it", "ovnhosts {\n default_switch neutron-3e0f6f0c-5c1e-4c5b-8b3a-0d6a3b0d7c11\n}", ovndb.Config{Southbound: sb}, []string{"."}, "", 30,
			ovn.SwitchRef{Name: "neutron-3e0f6f0c-5c1e-4c5b-8b3a-0d6a3b0d7c11"}, false, ""},
		{"scope", "ovnhosts {\n scope router\n}", ovndb.Config{Southbound: sb}, []string{"."}, "", 30, ovn.SwitchRef{}, true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := caddy.NewTestController("dns", tt.input)
			c.ServerBlockKeys = []string{"."}
			h, err := parse(c)
			if err != nil {
				t.Fatal(err)
			}
			h.config.Log = nil
			if d := cmp.Diff(tt.config, h.config); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(tt.zones, h.Zones); d != "" {
				t.Error(d)
			}
			if h.Domain != tt.domain || h.TTL != tt.ttl || h.defaultSwitch != tt.byDefault || h.routers != tt.routers {
				t.Errorf("domain %q, ttl %d, default switch %s, routers %v", h.Domain, h.TTL, h.defaultSwitch, h.routers)
			}
			if tt.through != "" && !h.Fall.Through(tt.through) || h.Fall.Through("a.com.") {
				t.Error("fallthrough")
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	// Where another package refuses, want has what the error names; else testdata/messages.golden has the error.
	tests := []struct{ name, input, want string }{
		{"property", "ovnhosts {\n colour red\n}", `:2 .*"colour".*\[default_switch `},
		{"twice", "ovnhosts {\n ttl 1\n ttl 2\n}", `:3 .*"ttl"`},
		{"a brace of its own line", "ovnhosts\n{\n ttl 5\n}", `:2 .*\{`},
		{"two directives", "ovnhosts\novnhosts", `:2 .*ovnhosts`},
		{"a bad zone", "ovnhosts red.test a..b", `:1 .*"a\.\.b"`},
		{"shuffle", "ovnhosts {\n shuffle\n}", `:2 .* shuffle: .*on or off`},
		{"endpoint", "ovnhosts {\n southbound db.sock\n}", `:2 .* southbound: .*"db.sock"`},
		{"endpoint of another method", "ovnhosts {\n northbound http://127.0.0.1:6641\n}", `:2 .* northbound: .*"http"`},
		{"endpoint to listen on", "ovnhosts {\n northbound ptcp:6641\n}", `:2 .* northbound: .*"ptcp:6641"`},
		{"endpoint twice", "ovnhosts {\n southbound unix:/a unix:/a\n}", `:2 .* southbound: .*"unix:/a"`},
		{"monitor", "ovnhosts {\n monitor some\n}", `:2 .* monitor: "some": .*local or all`},
		{"monitor without words", "ovnhosts {\n monitor\n}", `:2 .* monitor: \[\]: .*local or all`},
		{"tls", "ovnhosts {\n tls c\n}", `:2 .* tls: .*CERT KEY CA`},
		{"domain", "ovnhosts {\n domain a..b\n}", `:2 .* domain: "a\.\.b"`},
		{"ttl", "ovnhosts {\n ttl -1\n}", `:2 .* ttl: "-1"`},
		{"scope", "ovnhosts {\n scope world\n}", `:2 .* scope: "world": .*switch or router`},
		{"fallthrough", "ovnhosts {\n fallthrough a..b\n}", `:2 .* fallthrough: "a\.\.b"`},
		{"zero as default switch", "ovnhosts {\n default_switch 00000000-0000-0000-0000-000000000000\n}", `:2 .* default_switch: .*00000000-0000-0000-0000-000000000000`},
		{"no endpoint", "ovnhosts {\n southbound\n}", ""},
		{"snapshot", "ovnhosts {\n snapshot\n}", ""},
		{"snapshot in the present folder", "ovnhosts {\n snapshot var\n}", ""},
		{"snapshot for too long", "ovnhosts {\n snapshot /var 2h\n}", ""},
		{"snapshot of Northbound", "ovnhosts {\n northbound unix:/nb\n snapshot /var\n}", ""},
		{"default switch", "ovnhosts {\n default_switch\n}", ""},
		{"ssl without tls", "ovnhosts {\n southbound ssl:127.0.0.1:6642\n}", `:2 - ovnhosts: southbound: "ssl:127.0.0.1:6642"`},
		{"tls of no file", "ovnhosts {\n tls /no/cert.pem /no/key.pem /no/ca.pem\n}", `:2 - ovnhosts: tls: .*/no/cert.pem`},
		{"a server's name without tls", "ovnhosts {\n tls_servername db.example\n}", `:2 - ovnhosts: tls_servername: "db.example"`},
		{"an address as the server's name", "ovnhosts {\n tls_servername 10.0.0.1\n}", `:2 .* tls_servername: .*"10.0.0.1"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := caddy.NewTestController("dns", tt.input)
			c.ServerBlockKeys = []string{"."}
			_, _, err := Databases(c)
			golden.Refusal(t, err, "plugin/ovnhosts: Testfile", tt.want, endpoint.ActiveForms, "{endpoint.ActiveForms}")
		})
	}
}

// A path that ends in a comma is opened as the Corefile has it.
func TestOpenPathWithComma(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", dir+"/sb,")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h, err := parse(caddy.NewTestController("dns", "ovnhosts . {\n southbound unix:"+dir+"/sb,,unix:"+dir+"/other\n}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.open(); err != nil {
		t.Fatal(err)
	}
	defer h.close()
	_ = l.(*net.UnixListener).SetDeadline(time.Now().Add(20 * time.Second))
	conn, err := l.Accept()
	if err != nil {
		t.Fatal("nobody connects to it:", err)
	}
	conn.Close()
}

// A handler that is closed again does not release what another one shares with it.
func TestCloseTwice(t *testing.T) {
	var handlers [2]*Handler
	for i := range handlers {
		h, err := parse(caddy.NewTestController("dns", "ovnhosts . {\n southbound unix:"+t.TempDir()+"/sb\n}"))
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			h.config = handlers[0].config
		}
		if err := h.open(); err != nil {
			t.Fatal(err)
		}
		handlers[i] = h
	}
	source := handlers[0].source
	if handlers[1].source != source {
		t.Fatal("the two share no source")
	}
	users := func() int {
		openSources.mu.Lock()
		defer openSources.mu.Unlock()
		if u := openSources.uses[source]; u != nil {
			return u.count
		}
		return 0
	}
	for _, h := range []*Handler{handlers[0], handlers[0]} {
		_ = h.close()
		if n := users(); n != 1 {
			t.Errorf("%d users, want 1", n)
		}
	}
	_ = handlers[1].close()
	if n := users(); n != 0 {
		t.Errorf("%d users at last", n)
	}
}

// The socket of the default is where the programs of OVN have theirs.
func TestDefaultSocket(t *testing.T) {
	t.Setenv("OVN_RUNDIR", "/run/central")
	h, err := parse(caddy.NewTestController("dns", "ovnhosts ."))
	if err != nil || len(h.config.Southbound) != 1 || h.config.Southbound[0] != "unix:/run/central/ovnsb_db.sock" {
		t.Errorf("%q, %v", h.config.Southbound, err)
	}
}
