// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/testkit/golden"
)

// Traces of packets to an address outside. Table 14 has flows of puntdns, table 16 is ls_in_acl, table 29 has the entry flows.
const (
	traceUnmarked = "14. pkt_mark=0/0x40000000,ip,reg14=0x1,metadata=0x1, priority 1000, cookie 0x70646e155f7a44a9\n    set_field:0x40000000/0xc0000000->pkt_mark\n    resubmit(,203)\n    203. No match.\n"
	traceMarked   = "14. pkt_mark=0/0x40000000,ip,reg14=0x1,metadata=0x1, priority 1000, cookie 0x70646e155f7a44a9\n    set_field:0x40000000/0xc0000000->pkt_mark\n    203. ip,nw_dst=192.0.2.0/24, priority 20, cookie 0x70646e0000000001\n            set_field:0x80000000/0x80000000->pkt_mark\n"
	traceClosed   = "16. pkt_mark=0/0x80000000,ip,reg14=0x1,metadata=0x1, priority 33766, cookie 0x2\n    drop\nDatapath actions: drop"
	traceAllowed  = "16. ip,metadata=0x1, priority 33767, cookie 0x3\n    resubmit(,17)\n29. metadata=0x1, priority 0, cookie 0x4\n    resubmit(,30)\n34. reg15=0,metadata=0x1, priority 50, cookie 0x5\n    drop\nDatapath actions: drop"
)

// An ACL stops the queries of a guest whose packets pass flows of egress before it.
func TestStoppedBehindEgress(t *testing.T) {
	entry, g := uint8(29), &api.Guest{PortKey: 1}
	for trace, want := range map[string]bool{
		traceUnmarked + traceClosed:  true,
		traceMarked + traceClosed:    true,
		traceUnmarked + traceAllowed: false,
	} {
		if w := readTrace(trace, &entry); w.isStopped(g, &entry) != want || want && w.acl.table != 16 {
			t.Errorf("%s\nstopped: %v, by %s", trace, !want, w.acl)
		}
	}
}

// doctor looks at whether packets to addresses that are not open pass the ACLs of a guest with an egress policy.
func TestEgressTrace(t *testing.T) {
	entry, found := uint8(29), ""
	for _, tt := range []struct {
		name   string
		closed []string
		trace  string
		err    error
	}{
		{"closed", []string{"ip4"}, traceUnmarked + traceClosed, nil},
		{"an ACL above the drop", []string{"ip4"}, traceUnmarked + traceAllowed, nil},
		{"no ACL", nil, traceUnmarked + traceAllowed, nil},
		{"an ACL for another bit", nil, traceUnmarked + strings.Replace(traceClosed, "0x80000000", "0x20000000", 1), nil},
		{"another ACL", nil, traceUnmarked + strings.Replace(traceClosed, "pkt_mark=0/0x80000000,", "", 1), nil},
		{"an address that the policy has", []string{"ip4"}, traceMarked + traceAllowed, nil},
		{"not traced", []string{"ip4"}, "", errors.New("no ovs-appctl")},
	} {
		asked := 0
		tr := &tracer{openings: func(context.Context) ([]api.Opening, error) { return nil, nil }, trace: func(_ context.Context, _, flow string) (string, error) {
			if asked++; !strings.Contains(flow, "nw_dst=198.18.0.1") || !strings.Contains(flow, "tcp_flags=syn") {
				t.Errorf("%s: flow %s", tt.name, flow)
			}
			return tt.trace, tt.err
		}}
		g := &someGuests().Guests[0]
		for _, egress := range []*api.GuestEgress{nil, {Closed: tt.closed, Bit: 31}} {
			g.Egress = egress
			if all, err := tr.egress(t.Context(), g, &entry); len(all) > 0 || err != nil || asked > 0 {
				t.Errorf("%s: without a policy: %v, %v, %d traces", tt.name, all, err, asked)
			}
		}
		g.Egress = &api.GuestEgress{Policy: true, Closed: tt.closed, Bit: 31}
		all, err := tr.egress(t.Context(), g, &entry)
		if !errors.Is(err, tt.err) || asked != 1 {
			t.Errorf("%s: %v, %d traces", tt.name, err, asked)
		}
		unknown := *g
		unknown.MACs, asked = nil, 0
		if all, err := tr.egress(t.Context(), &unknown, &entry); len(all) > 0 || err != nil || asked > 0 {
			t.Errorf("%s: a guest without a MAC address: %v, %v, %d traces", tt.name, all, err, asked)
		}
		found += "# " + tt.name + "\n"
		for _, f := range all {
			found += fmt.Sprintf("%s %s %s: %s\n  %s\n  %s\n", f.Level, f.Code, f.About, f.Text, f.Remedy, strings.Join(f.Commands, "\n  "))
		}
	}
	golden.Check(t, found)
}

// doctor looks at whether a packet to an open address passes.
func TestOpenedTrace(t *testing.T) {
	const dropped = "16. ip,metadata=0x1,nw_dst=192.0.2.0/24, priority 2000, cookie 0x6\n    drop\nDatapath actions: drop"
	entry, found := uint8(29), ""
	for _, tt := range []struct {
		name, trace string
		closed      []string
		err         error
	}{
		{"passes", traceMarked + traceAllowed, []string{"ip4"}, nil},
		{"an ACL for another bit", traceMarked + strings.Replace(traceClosed, "0x80000000", "0x100000", 1), []string{"ip4"}, nil},
		{"an ACL for the network", traceMarked + dropped, []string{"ip4"}, nil},
		{"closed meanwhile", traceUnmarked + traceClosed, []string{"ip4"}, nil},
		{"without its own ACLs", traceMarked + traceClosed, nil, nil},
		{"not read", traceMarked + traceAllowed, []string{"ip4"}, errors.New("no answer of the switch")},
	} {
		g := &someGuests().Guests[0]
		g.Egress = &api.GuestEgress{Policy: true, Closed: tt.closed, Bit: 31}
		tr := &tracer{openings: func(context.Context) ([]api.Opening, error) {
			if tt.err != nil {
				return nil, tt.err
			}
			return []api.Opening{
				{Bridge: g.Bridge, Port: "other", Address: "192.0.2.9", Names: []string{"other.example."}},
				{Bridge: g.Bridge, Port: g.Port, Address: "2001:db8::9", Names: []string{"six.example."}},
				{Bridge: g.Bridge, Port: g.Port, Address: "192.0.2.8", Protocol: "udp", TransportPort: 53, Names: []string{"udp.example."}},
				{Bridge: g.Bridge, Port: g.Port, Address: "192.0.2.7", Protocol: "tcp", TransportPort: 8443, Names: []string{"a.example.", "b.example."}},
			}, nil
		}, trace: func(_ context.Context, _, flow string) (string, error) {
			if strings.Contains(flow, "nw_dst=198.18.0.1") {
				return traceUnmarked + traceClosed, nil
			}
			if !strings.Contains(flow, "nw_dst=192.0.2.7,") || !strings.Contains(flow, "tcp_dst=8443") {
				t.Errorf("%s: flow %s", tt.name, flow)
			}
			return tt.trace, nil
		}}
		all, err := tr.egress(t.Context(), g, &entry)
		if err != nil {
			t.Error(err)
		}
		found += "# " + tt.name + "\n"
		for _, f := range all {
			found += fmt.Sprintf("%s %s %s: %s\n  %s\n  %s\n", f.Level, f.Code, f.About, f.Text, f.Remedy, strings.Join(f.Commands, "\n  "))
		}
	}
	golden.Check(t, found)
}

// Each family of a guest is traced, whatever is open.
func TestEgressFamilies(t *testing.T) {
	entry := uint8(29)
	for _, tt := range []struct {
		open []string
		want string
	}{
		{nil, "198.18.0.1 100::1"},
		{[]string{"2001:db8::9"}, "198.18.0.1 100::1 2001:db8::9"},
		{[]string{"192.0.2.9", "2001:db8::9"}, "198.18.0.1 192.0.2.9 100::1 2001:db8::9"},
	} {
		g := &someGuests().Guests[0]
		g.Addresses = []string{"10.0.1.11", "fd00:1::11"}
		g.Egress = &api.GuestEgress{Policy: true, Closed: []string{"ip4", "ip6"}, Bit: 31}
		var asked []string
		tr := &tracer{openings: func(context.Context) (all []api.Opening, err error) {
			for _, a := range tt.open {
				all = append(all, api.Opening{Bridge: g.Bridge, Port: g.Port, Address: a, Names: []string{"a.example."}})
			}
			return all, nil
		}, trace: func(_ context.Context, _, flow string) (string, error) {
			asked = append(asked, regexp.MustCompile(`(?:nw|ipv6)_dst=([^,]*)`).FindStringSubmatch(flow)[1])
			return traceMarked + traceAllowed, nil
		}}
		if _, err := tr.egress(t.Context(), g, &entry); err != nil || strings.Join(asked, " ") != tt.want {
			t.Errorf("%v: %v, %q", tt.open, err, asked)
		}
	}
}

func TestBitOf(t *testing.T) {
	for _, tt := range []struct {
		bits []uint8
		want int
	}{{nil, 31}, {[]uint8{0}, 31}, {[]uint8{29, 0}, 29}, {[]uint8{29, 29}, 29}, {[]uint8{29, 30}, 0}} {
		s := &api.Status{}
		for _, bit := range tt.bits {
			s.Bridges = append(s.Bridges, api.Bridge{EgressBit: bit})
		}
		if got, err := bitOf(s); got != tt.want || (err != nil) != (tt.want == 0) {
			t.Errorf("%v: %d, %v", tt.bits, got, err)
		}
	}
}
