// SPDX-License-Identifier: Apache-2.0

package config

import (
	"regexp"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/puntdns/puntdns/ofpunt/guests"
)

// limitBlock is a limit in the syntax of a Corefile.
func limitBlock(of string, properties ...string) string {
	return " limit " + of + " {\n  " + strings.Join(properties, "\n  ") + "\n }\n"
}

func TestParseLimit(t *testing.T) {
	const id = "11111111-1111-4111-8111-11111111111a"
	tests := []struct {
		name, text string
		want       []guests.Limit
	}{
		{"none", " rate 5\n", nil},
		{"all properties", limitBlock("ofpunt/port vm1", "rate 100 20", "max_concurrent 9 3", "tcp_connections 1024"), []guests.Limit{{
			Label: "ofpunt/port", Value: "vm1", RateGiven: true, Rate: guests.Rate{PerSecond: 100, Burst: 20}, Concurrent: 9, ConcurrentGuest: 3, Connections: 1024,
		}}},
		{"no rate", limitBlock("ofpunt/port vm1", "rate off"), []guests.Limit{{Label: "ofpunt/port", Value: "vm1", RateGiven: true}}},
		{"a rate without a burst", limitBlock("ofpunt/port vm1", "rate 70000"), []guests.Limit{{Label: "ofpunt/port", Value: "vm1", RateGiven: true, Rate: guests.Rate{PerSecond: 70000, Burst: 70}}}},
		{"one guest may use all", limitBlock("ofpunt/port vm1", "max_concurrent 2048"), []guests.Limit{{Label: "ofpunt/port", Value: "vm1", Concurrent: 2048, ConcurrentGuest: 2048}}},
		{"fails closed", limitBlock("ofpunt/port vm1", "fail closed"), []guests.Limit{{Label: "ofpunt/port", Value: "vm1", FailGiven: true, FailClosed: true}}},
		{"fails open, beside a bridge that fails closed", " fail closed\n" + limitBlock("ofpunt/port vm1", "fail open"), []guests.Limit{{Label: "ofpunt/port", Value: "vm1", FailGiven: true}}},
		{"several, in their order", limitBlock("ofpunt/switch red", "tcp_connections 1") + " lease 9s\n" + limitBlock("ofpunt/port red", "tcp_connections 2"), []guests.Limit{
			{Label: "ofpunt/switch", Value: "red", Connections: 1}, {Label: "ofpunt/port", Value: "red", Connections: 2},
		}},
		{"a key", limitBlock("ofpunt/external-id/neutron:project_id p1", "tcp_connections 1"), []guests.Limit{{Label: "ofpunt/external-id/neutron:project_id", Value: "p1", Connections: 1}}},
		{"a value with spaces", limitBlock(`ofpunt/switch "a b"`, "tcp_connections 1"), []guests.Limit{{Label: "ofpunt/switch", Value: "a b", Connections: 1}}},
		{"a network, as it is written elsewhere", limitBlock("ofpunt/network "+strings.ToUpper(id), "tcp_connections 1"), []guests.Limit{{Label: "ofpunt/network", Value: id, Connections: 1}}},
		{"numbers, as they are written elsewhere", limitBlock("ofpunt/in-port 007", "tcp_connections 1") + limitBlock("ofpunt/vlan 00", "tcp_connections 1"), []guests.Limit{
			{Label: "ofpunt/in-port", Value: "7", Connections: 1}, {Label: "ofpunt/vlan", Value: "0", Connections: 1},
		}},
		{"of a bridge whose own follows", limitBlock("ofpunt/router r1", "max_concurrent 5000") + " max_concurrent 6000\n", []guests.Limit{{Label: "ofpunt/router", Value: "r1", Concurrent: 5000, ConcurrentGuest: 5000}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := Parse(caddy.NewTestController("dns", "ofpunt br-int {\n"+tt.text+"}"))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, b.Bridge.Limits, cmpopts.IgnoreFields(guests.Limit{}, "Name")); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParseLimitRefuses(t *testing.T) {
	few := limitBlock("ofpunt/port vm1", "tcp_connections 1")
	tests := []struct{ name, text string }{
		{"neither label nor value", limitBlock("", "rate 5")},
		{"no value", limitBlock("ofpunt/port", "rate 5")},
		{"two values", limitBlock("ofpunt/port a b", "rate 5")},
		{"no label of ofpunt", limitBlock("ovnhosts/answer a", "rate 5")},
		{"an unknown label", limitBlock("ofpunt/swich a", "rate 5")},
		{"no key", limitBlock("ofpunt/external-id/ a", "rate 5")},
		{"a key with a character that none has", limitBlock("ofpunt/external-id/a=b a", "rate 5")},
		{"the guest's own word", limitBlock("ofpunt/client-mac 02:00:00:00:00:01", "rate 5")},
		{"of a query", limitBlock("ofpunt/destination 192.0.2.1:53", "rate 5")},
		{"of all guests", limitBlock("ofpunt/bridge br-int", "rate 5")},
		{"an empty value", limitBlock(`ofpunt/external-id/a ""`, "rate 5")},
		{"no network", limitBlock("ofpunt/network red", "rate 5")},
		{"two routers", limitBlock("ofpunt/router r1,r2", "rate 5")},
		{"two groups", limitBlock("ofpunt/group g1,g2", "rate 5")},
		{"no number of a port", limitBlock("ofpunt/in-port tap1", "rate 5")},
		{"port 0", limitBlock("ofpunt/in-port 0", "rate 5")},
		{"no VLAN id", limitBlock("ofpunt/vlan 4095", "rate 5")},
		{"twice", few + limitBlock("ofpunt/port vm1", "rate 5")},
		{"twice in other words", limitBlock("ofpunt/in-port 7", "rate 5") + limitBlock("ofpunt/in-port 07", "rate 5")},
		{"empty", " rate 5\n limit ofpunt/port vm1 {\n }\n"},
		{"rate 0", limitBlock("ofpunt/port vm1", "rate 0")},
		{"a burst that is never filled again", limitBlock("ofpunt/port vm1", "rate 100000 99")},
		{"no queries", limitBlock("ofpunt/port vm1", "max_concurrent 0")},
		{"more of one than of all", limitBlock("ofpunt/port vm1", "max_concurrent 2 3")},
		{"more than all guests", " lease 9s\n" + limitBlock("ofpunt/port vm1", "rate 5", "max_concurrent 4097")},
		{"fails in another way", limitBlock("ofpunt/port vm1", "fail shut")},
		{"no connection", limitBlock("ofpunt/port vm1", "tcp_connections 0")},
		{"more connections than there are", limitBlock("ofpunt/port vm1", "tcp_connections 1025")},
		{"connections without a number", limitBlock("ofpunt/port vm1", "tcp_connections")},
		{"connections that are unlimited", limitBlock("ofpunt/port vm1", "tcp_connections off")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(caddy.NewTestController("dns", "ofpunt br-int {\n"+tt.text+"}"))
			checkRefusal(t, err)
		})
	}
	// What package corefile refuses of every block.
	for text, want := range map[string]string{
		" limit ofpunt/port vm1\n rate 5\n":                      `^Testfile:2 .*: limit ofpunt/port vm1: .*\[fail max_concurrent rate tcp_connections\]`,
		limitBlock("ofpunt/port vm1", "rate 5", "overload drop"): `^Testfile:4 .*: limit ofpunt/port vm1: .*"overload".*\[fail max_concurrent rate tcp_connections\]`,
		" tcp_connections 5\n":                                   `^Testfile:2 .*: [^:]*"tcp_connections".*\[address arp `,
		limitBlock("ofpunt/port vm1", "rate 5", "rate 5"):        `^Testfile:4 .*: limit ofpunt/port vm1: .*"rate"`,
	} {
		if _, err := Parse(caddy.NewTestController("dns", "ofpunt br-int {\n"+text+"}")); err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Two blocks of one bridge have to give the same limits in the same order, if both give properties.
func TestAgreedLimits(t *testing.T) {
	parsed := func(text string) *Directive {
		t.Helper()
		b, err := Parse(caddy.NewTestController("dns", "ofpunt br-int "+text))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	one, other := limitBlock("ofpunt/port vm1", "rate 5"), limitBlock("ofpunt/port vm2", "rate 5")
	for _, tt := range []struct{ name, first, second, want string }{
		{"the same", "{\n" + one + other + "}", "{\n" + one + other + "}", ""},
		{"elsewhere in the file", "{\n" + one + "}", "{\n\n\n" + one + "}", ""},
		{"none", "{\n" + one + "}", "", ""},
		{"none in the first", "", "{\n" + one + "}", ""},
		{"another value", "{\n" + one + "}", "{\n" + other + "}", "(limit)"},
		{"another order", "{\n" + one + other + "}", "{\n" + other + one + "}", "(limit)"},
		{"another rate", "{\n" + one + "}", "{\n" + limitBlock("ofpunt/port vm1", "rate 6") + "}", "(limit)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Agree([]*Directive{parsed(tt.first), parsed(tt.second)})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
