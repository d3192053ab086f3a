// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/label"
	"github.com/puntdns/puntdns/internal/testkit/golden"
	"github.com/puntdns/puntdns/ofpunt/guests"
)

func TestParseBlock(t *testing.T) {
	with := func(change func(*Bridge)) Bridge {
		o := Default("br-int")
		change(&o)
		return o
	}
	tests := []struct {
		name, input string
		want        Bridge
	}{
		{"defaults", "ofpunt br-int", Default("br-int")},
		{"endpoints", "ofpunt br-int {\n openflow ptcp:6653:127.0.0.1\n ovsdb tcp:127.0.0.1:6640\n}", with(func(o *Bridge) {
			o.OpenFlow = endpoint.Endpoint{Network: "tcp", Address: "127.0.0.1:6653", Listen: true}
			o.OVSDB = endpoint.Endpoint{Network: "tcp", Address: "127.0.0.1:6640"}
		})},
		{"chassis", "ofpunt br-int {\n chassis hv1\n}", with(func(o *Bridge) { o.Chassis = "hv1" })},
		{"why", "ofpunt br-int {\n why\n}", with(func(o *Bridge) { o.Why = "why.puntdns." })},
		{"why with a zone", "ofpunt br-int {\n why Why.Cloud.Test\n}", with(func(o *Bridge) { o.Why = "why.cloud.test." })},
		{"control", "ofpunt br-int {\n control unix:/run/puntdns/control.sock\n}", with(func(o *Bridge) { o.Control = "/run/puntdns/control.sock" })},
		{"hijack", "ofpunt br-int {\n address any\n}", with(func(o *Bridge) { o.ResolversGiven, o.Resolvers = true, nil })},
		{"addresses", "ofpunt br-int {\n address 10.0.0.2 [fd00::2]:5353\n}", with(func(o *Bridge) {
			o.ResolversGiven, o.Resolvers = true, []netip.AddrPort{netip.MustParseAddrPort("10.0.0.2:53"), netip.MustParseAddrPort("[fd00::2]:5353")}
		})},
		{"DNS servers of DHCP", "ofpunt br-int {\n address dhcp\n}", with(func(o *Bridge) { o.ResolversGiven, o.Resolvers, o.DHCP = true, []netip.AddrPort{}, true })},
		{"gateways and an address", "ofpunt br-int {\n address gateway 10.0.0.2 dhcp\n}", with(func(o *Bridge) {
			o.ResolversGiven = true
			o.Resolvers, o.DHCP, o.Gateways = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.2:53")}, true, true
		})},
		{"numbers", "ofpunt br-int {\n controller_id 7\n lease 30s\n max_concurrent 10 3\n}", with(func(o *Bridge) {
			o.ControllerID, o.Lease, o.Concurrent, o.ConcurrentGuest = 7, 30*time.Second, 10, 3
		})},
		{"one limit bounds the other", "ofpunt br-int {\n max_concurrent 10\n}", with(func(o *Bridge) { o.Concurrent, o.ConcurrentGuest = 10, 10 })},
		{"grace", "ofpunt br-int {\n grace 90s\n}", with(func(o *Bridge) { o.Grace = 90 * time.Second })},
		{"no grace", "ofpunt br-int {\n grace 0\n}", with(func(o *Bridge) { o.Grace = 0 })},
		{"fails closed", "ofpunt br-int {\n fail closed\n}", with(func(o *Bridge) { o.FailClosed = true })},
		{"fails open", "ofpunt br-int {\n fail open\n}", Default("br-int")},
		{"hedge", "ofpunt br-int {\n hedge 50ms\n}", with(func(o *Bridge) { o.Hedge = 50 * time.Millisecond })},
		{"switches", "ofpunt br-int {\n arp off\n lease 0\n overload drop\n placement ovn\n}", with(func(o *Bridge) {
			o.ARP, o.Lease, o.Overload = false, 0, OverloadDrop
		})},
		{"rate", "ofpunt br-int {\n rate 100\n}", with(func(o *Bridge) { o.RateGiven, o.Rate = true, guests.Rate{PerSecond: 100, Burst: 64} })},
		{"low rate", "ofpunt br-int {\n rate 10\n}", with(func(o *Bridge) { o.RateGiven, o.Rate = true, guests.Rate{PerSecond: 10, Burst: 10} })},
		{"rate with a burst", "ofpunt br-int {\n rate 100 5\n}", with(func(o *Bridge) { o.RateGiven, o.Rate = true, guests.Rate{PerSecond: 100, Burst: 5} })},
		{"high rate", "ofpunt br-int {\n rate 100001\n}", with(func(o *Bridge) { o.RateGiven, o.Rate = true, guests.Rate{PerSecond: 100001, Burst: 101} })},
		{"no rate", "ofpunt br-int {\n rate off\n}", with(func(o *Bridge) { o.RateGiven = true })},
		{"the server's name before tls", "ofpunt br-int {\n tls_servername ovs.example.\n tls c k a\n}", with(func(o *Bridge) {
			o.TLS = endpoint.TLSFiles{Cert: "c", Key: "k", CA: "a", ServerName: "ovs.example"}
		})},
		{"tls", "ofpunt br-int {\n tls c k a\n}", with(func(o *Bridge) { o.TLS = endpoint.TLSFiles{Cert: "c", Key: "k", CA: "a"} })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := Parse(caddy.NewTestController("dns", tt.input))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, b.Bridge, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); d != "" {
				t.Error(d)
			}
			if explicit := strings.Contains(tt.input, "{"); b.HasProperties() != explicit {
				t.Errorf("properties: %v", !explicit)
			}
		})
	}
}

func TestParseBlockRefuses(t *testing.T) {
	// The sentences of another package are compared with what that package returns.
	choice := func(words []string, some ...string) error {
		_, err := corefile.Choice(words, some...)
		return err
	}
	method := func(word string) error {
		_, err := endpoint.Parse(word)
		return err
	}
	tests := []struct {
		name, line string
		want       error // what follows the property; nil if the sentence is one of ofpunt
	}{
		{"openflow without words", "openflow", nil},
		{"openflow with two words", "openflow unix:/a unix:/b", nil},
		{"openflow of no method", "openflow br-int.mgmt", method("br-int.mgmt")},
		{"openflow of another method", "openflow http:x:1", method("http:x:1")},
		{"ovsdb without words", "ovsdb", nil},
		{"ovsdb to listen on", "ovsdb ptcp:6640", nil},
		{"placement without words", "placement", nil},
		{"placement of another kind", "placement here", nil},
		{"placement ovn with a table", "placement ovn 30", nil},
		{"placement table without one", "placement table", nil},
		{"placement table out of range", "placement table 256", nil},
		{"placement table, priority out of range", "placement table 60 65536", nil},
		{"why with the root", "why .", nil},
		{"why with no name", "why a..b", nil},
		{"why with two zones", "why a b", nil},
		{"no control", "control", nil},
		{"control by TCP", "control tcp:127.0.0.1:80", nil},
		{"a relative control", "control unix:control.sock", nil},
		{"no chassis", "chassis", nil},
		{"two chassis", "chassis a b", nil},
		{"no address", "address", nil},
		{"any and another", "address any 10.0.0.1", nil},
		{"any and dhcp", "address dhcp any", nil},
		{"dhcp twice", "address dhcp 10.0.0.1 dhcp", nil},
		{"gateway with a port", "address gateway:5353", nil},
		{"address", "address ten", nil},
		{"multicast", "address 224.0.0.251", nil},
		{"multicast of IPv6", "address ff02::fb", nil},
		{"loopback", "address 127.0.0.53", nil},
		{"zone", "address fe80::1%eth0", nil},
		{"mapped", "address ::ffff:10.0.0.1", nil},
		{"port 0", "address 10.0.0.1:0", nil},
		{"address twice", "address 10.0.0.1 10.0.0.1:53", nil},
		{"arp without words", "arp", choice(nil, "on", "off")},
		{"arp of another word", "arp maybe", choice([]string{"maybe"}, "on", "off")},
		{"controller_id 0", "controller_id 0", nil},
		{"controller_id too large", "controller_id 65536", nil},
		{"grace too long", "grace 25h", nil},
		{"grace without a unit", "grace 60", nil},
		{"grace in the past", "grace -1s", nil},
		{"grace of two", "grace 1s 2s", nil},
		{"lease too short", "lease 1s", nil},
		{"lease too long", "lease 65536s", nil},
		{"lease in parts", "lease 3500ms", nil},
		{"lease without a unit", "lease 15", nil},
		{"lease", "lease soon", nil},
		{"max_concurrent without words", "max_concurrent", nil},
		{"max_concurrent 0", "max_concurrent 0", nil},
		{"max_concurrent of a machine that is still to be built", "max_concurrent 9000000000000000", nil},
		{"max_concurrent of a port above all", "max_concurrent 1 2", nil},
		{"rate 0", "rate 0", nil},
		{"rate of a word", "rate fast", nil},
		{"rate of bits", "rate 10kbps", nil},
		{"rate without words", "rate", nil},
		{"burst of less than a millisecond", "rate 100000 99", nil},
		{"burst", "rate 10 9000000", nil},
		{"fail of another word", "fail shut", choice([]string{"shut"}, "open", "closed")},
		{"fail without a word", "fail", choice([]string{}, "open", "closed")},
		{"overload of another word", "overload explode", choice([]string{"explode"}, "servfail", "drop")},
		{"cache_scope without words", "cache_scope", choice(nil, "shared", "network", "port")},
		{"cache_scope of another word", "cache_scope tenant", choice([]string{"tenant"}, "shared", "network", "port")},
		{"cache_share 0", "cache_share 0", nil},
		{"cache_share too large", "cache_share 101", nil},
		{"cache_share with a sign", "cache_share 25%", nil},
		{"hedge too short", "hedge 9ms", nil},
		{"hedge without a unit", "hedge 50", nil},
		{"hedge beyond forward's own wait", "hedge 2001ms", nil},
		{"metrics without words", "metrics", choice(nil, "network")},
		{"metrics of another word", "metrics guest", choice([]string{"guest"}, "network")},
		{"tls", "tls cert", corefile.TLSParsers(nil)["tls"]([]string{"cert"})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(caddy.NewTestController("dns", "ofpunt br-int {\n "+tt.line+"\n}"))
			if tt.want == nil {
				checkRefusal(t, err)
				return
			}
			property, _, _ := strings.Cut(tt.line, " ")
			if want := "Testfile:2 - Error during parsing: " + property + ": " + tt.want.Error(); err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
	for _, tt := range []struct{ name, input string }{
		{"no bridge", "ofpunt"},
		{"two bridges", "ofpunt br-int br-ex"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(caddy.NewTestController("dns", tt.input))
			checkRefusal(t, err)
		})
	}
	// What package corefile refuses for every plugin.
	for input, want := range map[string]string{
		"ofpunt br-int {\n colour red\n}":       `^Testfile:2 .*"colour".*\[address arp `,
		"ofpunt br-int {\n arp on\n arp off\n}": `^Testfile:3 .*"arp"`,
		"ofpunt br-int\nofpunt br-ex":           `^Testfile:2 .*ofpunt`,
	} {
		if _, err := Parse(caddy.NewTestController("dns", input)); err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%q: %v, want %s", input, err, want)
		}
	}
}

// checkRefusal compares an error with that of the test in testdata/messages.golden.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("taken")
	}
	golden.Check(t, err.Error(), endpoint.Forms, "{endpoint.Forms}", label.Expected(true), "{label.Expected}")
}

// The files of TLS are looked at once the directive is read.
func TestCheckTLS(t *testing.T) {
	for _, tt := range []struct{ name, properties, want string }{
		{"openflow", "openflow ssl:127.0.0.1:6653", `^Testfile:2 - ofpunt br-int: openflow: "ssl:127.0.0.1:6653"`},
		{"ovsdb", "lease 0\n ovsdb ssl:127.0.0.1:6640", `^Testfile:3 - ofpunt br-int: ovsdb: "ssl:127.0.0.1:6640"`},
		{"no file", "tls /no/cert.pem /no/key.pem /no/ca.pem", `^Testfile:2 - ofpunt br-int: tls: .*/no/cert.pem`},
		{"a name and no files", "tls_servername ovs.example", `^Testfile:2 - ofpunt br-int: tls_servername: "ovs.example"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := Parse(caddy.NewTestController("dns", "ofpunt br-int {\n "+tt.properties+"\n}"))
			if err != nil {
				t.Fatal(err)
			}
			if err := b.CheckTLS(); err == nil || !regexp.MustCompile(tt.want).MatchString(err.Error()) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// The last group of an address that looks like a port is told of, unless brackets say what it is.
func TestMeantAddress(t *testing.T) {
	for word, want := range map[string]string{
		"fd00::254:5353": "[fd00::254]:5353", "2001:db8::1:53": "",
		"fd00::254": "", "fd00::53": "", "fd00::254:53a": "", "fd00:1:2:3:4:5:6:53": "",
		"[fd00::254]:5353": "", "[fd00::254:5353]:53": "", "10.0.0.1:5353": "", "10.0.0.53": "", "dhcp": "",
	} {
		if got := meantAddress(word); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

// The sockets of the defaults are where the programs of Open vSwitch have theirs.
func TestDefaultSockets(t *testing.T) {
	t.Setenv("OVS_RUNDIR", "/run/switch")
	b, err := Parse(caddy.NewTestController("dns", "ofpunt br-int"))
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Bridge.OpenFlow.String(); got != "unix:/run/switch/br-int.mgmt" {
		t.Errorf("openflow %s", got)
	}
	if got := b.Bridge.OVSDB.String(); got != "unix:/run/switch/db.sock" {
		t.Errorf("ovsdb %s", got)
	}
}
