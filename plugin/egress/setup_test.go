// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/coredns/caddy"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/testkit/golden"
)

func TestSetup(t *testing.T) {
	// Where another package refuses, err is in its error.
	const (
		own   = "in testdata/messages.golden"
		allow = " policy ofpunt/port vm1 {\n allow pypi.org\n }\n"
	)
	refusals := ""
	for _, tt := range []struct{ input, err string }{
		{"egress {\n strict on\n" + allow + "}", ""},
		{"egress {\n strict names\n" + allow + "}", ""},
		{"egress {\n observe on\n strict off\n" + allow + "}", ""},
		{"egress example.org 10.0.0.0/8 {\n observe on\n policy ofpunt/switch red {\n allow pypi.org\n allow *.pypi.org:443/tcp 192.0.2.0/24\n }\n" + allow + "}", ""},
		{"egress {\n" + allow + "}", ""},
		{"egress {\n strict off\n observe off\n floor 30s\n grace 1h\n bit 7\n max_addresses 100 65536\n" + allow + "}", ""},
		{"egress {\n closed 203.0.113.0/24 2001:db8::1\n" + allow + "}", ""},
		{"egress {\n closed pypi.org\n" + allow + "}", own},
		{"egress {\n closed 203.0.113.1:443\n" + allow + "}", own},
		{"egress {\n closed\n" + allow + "}", own},
		{"egress {\n northbound on\n}", ""},
		{"egress {\n northbound off\n}", own},
		{"egress {\n bit 0\n" + allow + "}", own},
		{"egress {\n max_addresses 99\n" + allow + "}", own},
		{"egress {\n max_addresses 100 65537\n" + allow + "}", own},
		{"egress {\n floor 7h\n" + allow + "}", own},
		{"egress {\n grace 1500ms\n" + allow + "}", own},
		{"egress {\n strict on\n observe on\n" + allow + "}", own},
		{"egress {\n strict on\n}", own},
		{"egress {\n strict\n" + allow + "}", `:2 .* strict: \[\]: .*on or names or off`},
		{"egress {\n observe perhaps\n" + allow + "}", `:2 .* observe: "perhaps": .*on or off`},
		{"egress a..b {\n strict on\n" + allow + "}", `:1 .*"a\.\.b"`},
		{"egress {\n strict on\n policy ofpunt/port vm1 {\n }\n}", own},
		{"egress {\n strict on\n policy ofpunt/port vm1 {\n allow\n }\n}", own},
		{"egress {\n strict on\n policy ofpunt/port vm1 {\n allow pypi.org\n allow a..b\n }\n}", `:5 .* policy ofpunt/port vm1: allow: "a\.\.b"`},
		{"egress {\n strict on\n policy ofpunt/port vm1 {\n deny pypi.org\n }\n}", `:4 .*"deny", expected allow`},
		{"egress {\n strict on\n policy ofpunt/client-mac 02:00:00:00:00:01 {\n allow pypi.org\n }\n}", `:3 .* policy: "ofpunt/client-mac"`},
		{"egress {\n strict on\n policy port vm1 {\n allow pypi.org\n }\n}", `:3 .* policy: "port"`},
		{"egress {\n strict on\n" + allow + allow + "}", own},
		{"egress {\n strict on\n allow pypi.org\n}", `:3 .*"allow".*\[bit closed floor grace max_addresses northbound observe policy strict]`},
	} {
		c := caddy.NewTestController("dns", tt.input)
		c.ServerBlockKeys = []string{"."}
		switch err := setup(c); {
		case tt.err == "" && err != nil:
			t.Errorf("%q: %v", tt.input, err)
		case tt.err == own:
			refusals += fmt.Sprintf("%q: %v\n", tt.input, err)
		case tt.err != "" && (err == nil || !regexp.MustCompile("^plugin/egress: Testfile"+tt.err).MatchString(err.Error())):
			t.Errorf("%q: %v, want %s", tt.input, err, tt.err)
		}
	}
	golden.Check(t, refusals)
}

// A guest's refusal is logged once. A flood costs neither memory nor log.
func TestRefusalLog(t *testing.T) {
	l := newRefusalLog()
	vm1, vm2 := guest("vm1", "red"), guest("vm2", "red")
	for _, tt := range []struct {
		what, port, verdict, name, address string
		want                               bool
	}{
		{"the first one", "vm1", denied, "a.example.", "", true},
		{"again", "vm1", denied, "a.example.", "", false},
		{"another guest", "vm2", denied, "a.example.", "", true},
		{"another name", "vm1", denied, "b.example.", "", true},
		{"another verdict", "vm1", wouldClose, "a.example.", "192.168.0.1", true},
		{"another address", "vm1", wouldClose, "a.example.", "192.168.0.2", true},
		{"over the rate", "vm1", denied, "c.example.", "", false},
	} {
		o := map[string]*origin.Origin{"vm1": vm1, "vm2": vm2}[tt.port]
		if got := l.isNew(o, tt.verdict, tt.name, tt.address); got != tt.want {
			t.Errorf("%s: %v", tt.what, got)
		}
	}
	l.limit.SetLimit(1e9)
	l.limit.SetBurst(1e9)
	for i := range 3 * logMemory {
		l.isNew(vm1, denied, fmt.Sprint(i), "")
	}
	if n := len(l.recent) + len(l.older); n > 2*logMemory {
		t.Errorf("%d refusals are remembered", n)
	}
	if l.isNew(vm1, denied, fmt.Sprint(3*logMemory-1), "") {
		t.Error("the last one is new")
	}
}
