// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
)

func TestParseExplainRequest(t *testing.T) {
	for _, tt := range []struct {
		query string
		want  explainRequest
		err   string
	}{
		{"port=vm1&name=a.test", explainRequest{port: "vm1", name: "a.test.", qtype: dns.TypeA}, ""},
		{"port=vm1&name=A.test.&type=aaaa&tcp=true", explainRequest{port: "vm1", name: "A.test.", qtype: dns.TypeAAAA, tcp: true}, ""},
		{"port=vm1&name=a&server=10.0.0.1", explainRequest{port: "vm1", name: "a.", qtype: dns.TypeA, server: netip.MustParseAddrPort("10.0.0.1:53")}, ""},
		{"port=vm1&name=a&server=[fd00::1]:5353", explainRequest{port: "vm1", name: "a.", qtype: dns.TypeA, server: netip.MustParseAddrPort("[fd00::1]:5353")}, ""},
		{"port=vm1&name=a&server=fd00::1", explainRequest{port: "vm1", name: "a.", qtype: dns.TypeA, server: netip.MustParseAddrPort("[fd00::1]:53")}, ""},
		{"port=vm1&name=.", explainRequest{port: "vm1", name: ".", qtype: dns.TypeA}, ""},
		{"name=a", explainRequest{}, `^port`},
		{"port=vm1", explainRequest{}, `^name ""`},
		{"port=vm1&name=a..b", explainRequest{}, `^name "a\.\.b"`},
		{"port=vm1&name=" + strings.Repeat("a", 64), explainRequest{}, `^name "a+"`},
		{"port=vm1&name=" + strings.Repeat("a.", 200), explainRequest{}, `^name "[a.]+"`},
		{"port=vm1&name=10.0.0.1", explainRequest{}, `^name "10.0.0.1" .* 1.0.0.10.in-addr.arpa. .*PTR`},
		{"port=vm1&name=a&type=XYZ", explainRequest{}, `type "XYZ"`},
		{"port=vm1&name=a&server=x", explainRequest{}, `server "x"`},
		{"port=vm1&name=a&tcp=maybe", explainRequest{}, `tcp "maybe"`},
	} {
		t.Run(tt.query[:min(len(tt.query), 40)], func(t *testing.T) {
			parameters, err := url.ParseQuery(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			w, err := parseExplainRequest(parameters)
			if tt.err == "" && (err != nil || w != tt.want) {
				t.Errorf("%+v, %v, want %+v", w, err, tt.want)
			}
			var of *control.Error
			if tt.err != "" && (!errors.As(err, &of) || of.Status != http.StatusBadRequest || !regexp.MustCompile(tt.err).MatchString(err.Error())) {
				t.Errorf("%v, want %q", err, tt.err)
			}
		})
	}
}

func FuzzParseExplainRequest(f *testing.F) {
	f.Add("vm1", "a.test", "A", "10.0.0.1", "true")
	f.Add("vm1", `\000\.a`, "TYPE65535", "[fd00::1%eth0]:53", "")
	f.Fuzz(func(t *testing.T, port, name, qtype, server, tcp string) {
		w, err := parseExplainRequest(url.Values{"port": {port}, "name": {name}, "type": {qtype}, "server": {server}, "tcp": {tcp}})
		if err != nil {
			return
		}
		if w.port == "" || !dns.IsFqdn(w.name) {
			t.Errorf("%+v", w)
		}
		// Names that can't be packed are refused later.
		if text, err := (&explainedQuery{explainRequest: &w}).message(); err == nil && new(dns.Msg).Unpack(text) != nil {
			t.Errorf("%q makes the message %x", w.name, text)
		}
	})
}

func TestFindGuest(t *testing.T) {
	all := &api.Guests{
		Guests: []api.Guest{
			{Bridge: "br-int", Port: "red-vm1", Switch: "red", Interface: "tap1", Addresses: []string{"10.0.0.1"}, MACs: []string{"02:00:00:00:00:01"}},
			{Bridge: "br-int", Port: "blue-vm1", Switch: "blue", Interface: "tap2", Addresses: []string{"10.0.0.1", "fd00::2"}, MACs: []string{"02:00:00:00:00:02"}},
			{Bridge: "br-int", Port: "ct1", Switch: "blue", Interface: "tap2", VLAN: 7},
			{Bridge: "br-int", Port: "sriov", Switch: "blue", Interface: "patch", MACs: []string{"02:00:00:00:00:03"}, VLAN: 5},
			{Bridge: "br-int", Port: "sriov", Switch: "blue", Interface: "patch", MACs: []string{"02:00:00:00:00:04"}, VLAN: 5},
			{Bridge: "br-int", Port: "tap1", Switch: "green", Interface: "tap9"},
		},
		Unserved: []api.Unserved{{Port: "ghost", Interface: "tap5", Reason: "it is bound to no chassis"}},
	}
	for _, tt := range []struct{ word, port, err string }{
		{"red-vm1", "red-vm1", ""},
		{"tap2", "blue-vm1", ""},
		{"tap1", "tap1", ""}, // a logical port precedes an interface
		{"fd00::2", "blue-vm1", ""},
		{"FD00:0::2", "blue-vm1", ""},
		{"02:00:00:00:00:01", "red-vm1", ""},
		{"02-00-00-00-00-04", "sriov", ""},
		{"sriov", "sriov", ""},
		{"ghost", "", ""},
		{"tap5", "", ""},
		{"10.0.0.1", "", `^400 "10\.0\.0\.1" .*red-vm1 .* red .* br-int, .*blue-vm1 .* blue .* br-int`},
		{"nobody", "", `^404 "nobody"`},
		{"", "", `^404 ""`},
	} {
		g, unserved, err := findGuest(all, tt.word)
		var of *control.Error
		switch {
		case tt.err != "":
			if !errors.As(err, &of) || !regexp.MustCompile(tt.err).MatchString(fmt.Sprintf("%d %v", of.Status, err)) {
				t.Errorf("%q: %v, want %q", tt.word, err, tt.err)
			}
		case err != nil:
			t.Errorf("%q: %v", tt.word, err)
		case tt.port == "" && (unserved == nil || unserved.Port != "ghost"), tt.port != "" && (g == nil || g.Port != tt.port):
			t.Errorf("%q: %+v, %+v, want %q", tt.word, g, unserved, tt.port)
		}
	}
}

func TestDefaultServer(t *testing.T) {
	for _, tt := range []struct {
		name string
		g    api.Guest
		want string
	}{
		{"the first of a family that it has", api.Guest{Resolvers: []string{"169.254.169.254:53", "[fd00::254]:53"}, Addresses: []string{"fd00::1"}}, "[fd00::254]:53"},
		{"that of DHCP before others", api.Guest{Resolvers: []string{"169.254.169.254:53", "10.0.0.2:53"}, Addresses: []string{"10.0.0.1"}, DHCP: &api.DHCP{DNSServer: "{9.9.9.9, 10.0.0.2}"}}, "10.0.0.2:53"},
		{"DHCP tells none that is one", api.Guest{Resolvers: []string{"169.254.169.254:53"}, Addresses: []string{"10.0.0.1"}, DHCP: &api.DHCP{DNSServer: "9.9.9.9"}}, "169.254.169.254:53"},
		{"no address", api.Guest{Resolvers: []string{"169.254.169.254:5353"}}, "169.254.169.254:5353"},
		{"any, by DHCP", api.Guest{Resolvers: []string{"any"}, Addresses: []string{"10.0.0.1"}, DHCP: &api.DHCP{DNSServer: "{10.0.0.2, 10.0.0.3}"}}, "10.0.0.2:53"},
		{"any", api.Guest{Resolvers: []string{"any"}, Addresses: []string{"10.0.0.1"}}, "invalid AddrPort"},
	} {
		if got := defaultServer(&tt.g).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// Addresses are assumed for a guest without any in OVN, but not for another family.
func TestChoose(t *testing.T) {
	server := netip.MustParseAddrPort("169.254.169.254:53")
	for _, tt := range []struct {
		name    string
		g       api.Guest
		from    string
		client  string // "" for an error
		assumed bool
	}{
		{"its own", api.Guest{MACs: []string{"02:00:00:00:01:11"}, Addresses: []string{"fd00::1", "10.0.0.1"}}, "", "10.0.0.1:50000", false},
		{"given", api.Guest{MACs: []string{"02:00:00:00:01:11"}, Addresses: []string{"fd00::1"}}, "10.0.0.9", "10.0.0.9:50000", false},
		{"no address", api.Guest{MACs: []string{"02:00:00:00:01:11"}}, "", api.StandIn4 + ":50000", true},
		{"no MAC address", api.Guest{Addresses: []string{"10.0.0.1"}}, "", "10.0.0.1:50000", true},
		{"another family", api.Guest{MACs: []string{"02:00:00:00:01:11"}, Addresses: []string{"fd00::1"}}, "", "", false},
		{"given, of another family", api.Guest{Addresses: []string{"10.0.0.1"}}, "fd00::1", "", false},
	} {
		w := &explainRequest{port: "vm1", name: "a.", qtype: dns.TypeA, server: server}
		if tt.from != "" {
			w.from = netip.MustParseAddr(tt.from)
		}
		q := &explainedQuery{explainRequest: w, out: newExplanation(w)}
		q.out.Guest = tt.g
		err := q.choose()
		if of := q.out.Question; (err != nil) != (tt.client == "") || of.Client != tt.client || err == nil && of.Assumed != tt.assumed {
			t.Errorf("%s: %v, %+v; want %q, assumed %v", tt.name, err, of, tt.client, tt.assumed)
		}
	}
}
