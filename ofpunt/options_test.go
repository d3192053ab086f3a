// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/endpoint"
)

func TestParseBlock(t *testing.T) {
	with := func(change func(*bridgeOptions)) bridgeOptions {
		o := defaultOptions("br-int")
		change(&o)
		return o
	}
	tests := []struct {
		name, input string
		want        bridgeOptions
	}{
		{"defaults", "ofpunt br-int", defaultOptions("br-int")},
		{"endpoints", "ofpunt br-int {\n openflow ptcp:6653:127.0.0.1\n ovsdb tcp:127.0.0.1:6640\n}", with(func(o *bridgeOptions) {
			o.OpenFlow = endpoint.Endpoint{Network: "tcp", Address: "127.0.0.1:6653", Listen: true}
			o.OVSDB = endpoint.Endpoint{Network: "tcp", Address: "127.0.0.1:6640"}
		})},
		{"chassis", "ofpunt br-int {\n chassis hv1\n}", with(func(o *bridgeOptions) { o.Chassis = "hv1" })},
		{"control", "ofpunt br-int {\n control unix:/run/puntdns/control.sock\n}", with(func(o *bridgeOptions) { o.Control = "/run/puntdns/control.sock" })},
		{"hijack", "ofpunt br-int {\n address any\n}", with(func(o *bridgeOptions) { o.Addresses = nil })},
		{"addresses", "ofpunt br-int {\n address 10.0.0.2 [fd00::2]:5353\n}", with(func(o *bridgeOptions) {
			o.Addresses = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.2:53"), netip.MustParseAddrPort("[fd00::2]:5353")}
		})},
		{"DNS servers of DHCP", "ofpunt br-int {\n address dhcp\n}", with(func(o *bridgeOptions) { o.Addresses, o.DHCP = []netip.AddrPort{}, true })},
		{"gateways and an address", "ofpunt br-int {\n address gateway 10.0.0.2 dhcp\n}", with(func(o *bridgeOptions) {
			o.Addresses, o.DHCP, o.Gateways = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.2:53")}, true, true
		})},
		{"numbers", "ofpunt br-int {\n controller_id 7\n lease 30s\n max_concurrent 10 3\n}", with(func(o *bridgeOptions) {
			o.ControllerID, o.Lease, o.Concurrent, o.ConcurrentGuest = 7, 30*time.Second, 10, 3
		})},
		{"one limit bounds the other", "ofpunt br-int {\n max_concurrent 10\n}", with(func(o *bridgeOptions) { o.Concurrent, o.ConcurrentGuest = 10, 10 })},
		{"grace", "ofpunt br-int {\n grace 90s\n}", with(func(o *bridgeOptions) { o.Grace = 90 * time.Second })},
		{"no grace", "ofpunt br-int {\n grace 0\n}", with(func(o *bridgeOptions) { o.Grace = 0 })},
		{"switches", "ofpunt br-int {\n arp off\n lease 0\n overload drop\n placement ovn\n}", with(func(o *bridgeOptions) {
			o.ARP, o.Lease, o.Overload = false, 0, overloadDrop
		})},
		{"rate", "ofpunt br-int {\n rate 100\n}", with(func(o *bridgeOptions) { o.RateGiven, o.Rate = true, rateLimit{100, 64} })},
		{"low rate", "ofpunt br-int {\n rate 10\n}", with(func(o *bridgeOptions) { o.RateGiven, o.Rate = true, rateLimit{10, 10} })},
		{"rate with a burst", "ofpunt br-int {\n rate 100 5\n}", with(func(o *bridgeOptions) { o.RateGiven, o.Rate = true, rateLimit{100, 5} })},
		{"high rate", "ofpunt br-int {\n rate 100001\n}", with(func(o *bridgeOptions) { o.RateGiven, o.Rate = true, rateLimit{100001, 101} })},
		{"no rate", "ofpunt br-int {\n rate off\n}", with(func(o *bridgeOptions) { o.RateGiven = true })},
		{"the server's name before tls", "ofpunt br-int {\n tls_servername ovs.example.\n tls c k a\n}", with(func(o *bridgeOptions) {
			o.TLS = endpoint.TLSFiles{Cert: "c", Key: "k", CA: "a", ServerName: "ovs.example"}
		})},
		{"tls", "ofpunt br-int {\n tls c k a\n}", with(func(o *bridgeOptions) { o.TLS = endpoint.TLSFiles{Cert: "c", Key: "k", CA: "a"} })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := parseBlock(caddy.NewTestController("dns", tt.input))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, b.options, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }), cmp.AllowUnexported(rateLimit{})); d != "" {
				t.Error(d)
			}
			if explicit := strings.Contains(tt.input, "{"); b.directive.HasProperties() != explicit {
				t.Errorf("properties: %v", !explicit)
			}
		})
	}
}

func TestParseBlockRefuses(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"property", "colour red", `unknown property "colour"`},
		{"twice", "arp on\n arp off", `"arp" is given twice`},
		{"openflow without words", "openflow", "openflow: expected one of unix:PATH"},
		{"openflow method", "openflow http:x:1", `unknown method "http"`},
		{"ovsdb listening", "ovsdb ptcp:6640", "expected an endpoint to connect to"},
		{"placement", "placement here", "expected ovn"},
		{"no control", "control", "control: []: expected unix:PATH with an absolute path"},
		{"control by TCP", "control tcp:127.0.0.1:80", `control: "tcp:127.0.0.1:80": expected unix:PATH with an absolute path`},
		{"a relative control", "control unix:control.sock", "expected unix:PATH with an absolute path"},
		{"no chassis", "chassis", "chassis: []: expected the name"},
		{"two chassis", "chassis a b", "expected the name of the chassis"},
		{"no address", "address", "expected IP[:PORT]..., dhcp, gateway, or any"},
		{"any and another", "address any 10.0.0.1", "any stands alone"},
		{"any and dhcp", "address dhcp any", "any stands alone"},
		{"dhcp twice", "address dhcp 10.0.0.1 dhcp", `"dhcp" is given twice`},
		{"gateway with a port", "address gateway:5353", `"gateway:5353": expected IP[:PORT]..., dhcp`},
		{"address", "address ten", `"ten": expected IP[:PORT]..., dhcp, gateway, or any`},
		{"multicast", "address 224.0.0.251", "expected a unicast address"},
		{"loopback", "address 127.0.0.53", "expected a unicast address"},
		{"zone", "address fe80::1%eth0", "expected a plain IPv4 or IPv6 address"},
		{"mapped", "address ::ffff:10.0.0.1", "expected a plain IPv4 or IPv6 address"},
		{"port 0", "address 10.0.0.1:0", "expected a port from 1 to 65535"},
		{"address twice", "address 10.0.0.1 10.0.0.1:53", "given twice"},
		{"arp", "arp maybe", "expected on or off"},
		{"controller 0", "controller_id 0", "expected a number from 1 to 65535"},
		{"grace too long", "grace 25h", "grace: \"25h\": expected one duration from 0 to 24h"},
		{"grace without a unit", "grace 60", "expected one duration from 0 to 24h"},
		{"grace in the past", "grace -1s", "expected one duration from 0 to 24h"},
		{"grace of two", "grace 1s 2s", "expected one duration from 0 to 24h"},
		{"lease too short", "lease 1s", "expected 0 or whole seconds from 3s"},
		{"lease in parts", "lease 3500ms", "expected 0 or whole seconds"},
		{"lease", "lease soon", "expected 0 or whole seconds"},
		{"limit", "max_concurrent 0", "expected N [PER_PORT]"},
		{"limit of a machine that is still to be built", "max_concurrent 9000000000000000", "numbers from 1 to 65536"},
		{"limits", "max_concurrent 1 2", "PER_PORT at most N"},
		{"rate 0", "rate 0", "expected off or QPS [BURST]"},
		{"rate of bits", "rate 10kbps", "expected off or QPS [BURST]"},
		{"rate without words", "rate", "expected off or QPS [BURST]"},
		{"burst of less than a millisecond", "rate 100000 99", "BURST of at least 100"},
		{"burst", "rate 10 9000000", "numbers from 1 to 1048576"},
		{"overload", "overload explode", "expected servfail or drop"},
		{"tls", "tls cert", "expected CERT KEY CA"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseBlock(caddy.NewTestController("dns", "ofpunt br-int {\n "+tt.line+"\n}"))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			// The file and line are what the user looks for first.
			if !strings.Contains(err.Error(), "Testfile:") {
				t.Errorf("no file and line in %q", err)
			}
		})
	}
	for _, input := range []string{"ofpunt", "ofpunt a b", "ofpunt a\nofpunt b"} {
		if _, err := parseBlock(caddy.NewTestController("dns", input)); err == nil {
			t.Errorf("%q was taken", input)
		}
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
	b, err := parseBlock(caddy.NewTestController("dns", "ofpunt br-int"))
	if err != nil {
		t.Fatal(err)
	}
	if got := b.options.OpenFlow.String(); got != "unix:/run/switch/br-int.mgmt" {
		t.Errorf("openflow %s", got)
	}
	if got := b.options.OVSDB.String(); got != "unix:/run/switch/db.sock" {
		t.Errorf("ovsdb %s", got)
	}
}
