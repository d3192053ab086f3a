// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// giveLimits has a server give guests their limits by their labels.
func giveLimits(s *server, limits []limit) {
	s.options.Limits, s.limits = limits, newLimitIndex(limits)
	addLimitRequests(&s.labelRequests, limits)
}

// rated is a limit whose rate is that number.
func rated(label, value string, rate uint32) limit {
	return limit{Label: label, Value: value, RateGiven: true, Rate: rateLimit{rate, rate}}
}

// The meter of each guest and its queries go by the same limit, which follows the databases: what
// OVN says of its port, and which OpenFlow port it has here.
func TestLimitsOfGuests(t *testing.T) {
	s := newSouthbound(t, 4, func(s *server) {
		giveLimits(s, []limit{
			rated("ofpunt/in-port", "3", 3), rated("ofpunt/external-id/neutron:project_id", "p", 5), rated("ofpunt/port", "p1", 7),
			{Label: "ofpunt/router", Value: "r", Connections: 9}, // above all, and of no rate
			rated("ofpunt/network", "11111111-1111-4111-8111-111111111111", 11),
		})
	})
	var d desired
	expect := func(what string, view *ports.View, want ...uint32) {
		t.Helper()
		guests := d.want(s.server, view).Guests
		for i, rate := range want {
			name := ""
			owner := (*vswitch.Interface)(nil)
			for j := range view.Interfaces {
				if view.Interfaces[j].IfaceID == fmt.Sprint("p", i) {
					owner = &view.Interfaces[j]
				}
			}
			in := &openflow.PacketIn{InPort: owner.OFPort, Metadata: 1}
			in.Regs[placement.RegInPort] = uint32(i + 1)
			found := s.server.findLimit(in, owner)
			if found >= 0 && s.server.limits.limits[found].RateGiven {
				l := s.server.limits.limits[found]
				name = l.String()
				if l.Rate.rate != rate {
					t.Errorf("%s: queries of p%d have %s", what, i, name)
				}
			}
			if got := guests[i].Limit; got.Rate != rate || got.Name != name {
				t.Errorf("%s: p%d has %+v, want %d of %q", what, i, got, rate, name)
			}
		}
	}
	change := func(port, row string, done func(*ovn.Port) bool) {
		t.Helper()
		s.database.Transact(t, "OVN_Southbound", json.RawMessage(fmt.Sprintf(`{"op":"update","table":"Port_Binding","where":[["logical_port","==",%q]],"row":%s}`, port, row)))
		s.until(func(now *ovn.Snapshot) bool { return done(now.PortByName(port)) })
	}
	expect("at first", s.view, 11, 7, 3, 11)
	change("p1", `{"external_ids":["map",[["neutron:project_id","p"]]]}`, func(p *ovn.Port) bool { return p.ExternalID("neutron:project_id") == "p" })
	expect("a port of the project", s.view, 11, 5, 3, 11)
	change("p3", `{"external_ids":["map",[["neutron:project_id","p"]]]}`, func(p *ovn.Port) bool { return p.ExternalID("neutron:project_id") == "p" })
	change("p1", `{"external_ids":["map",[["neutron:project_id","q"]]]}`, func(p *ovn.Port) bool { return p.ExternalID("neutron:project_id") == "q" })
	expect("another port of the project", s.view, 11, 7, 3, 5)

	// p0 and p2 change their OpenFlow ports.
	local := s.view.View
	local.Interfaces = append([]vswitch.Interface(nil), local.Interfaces...)
	local.Interfaces[0].OFPort, local.Interfaces[2].OFPort = 3, 1
	expect("other OpenFlow ports", ports.NewView(local, s.view), 3, 7, 11, 5)
}

// A guest that a limit without a rate is for has the rate of all.
func TestLimitWithoutRate(t *testing.T) {
	limits := []limit{{Label: "ofpunt/port", Value: "vm1", Connections: 9}, rated("ofpunt/switch", "red", 7)}
	o := bridgeOptions{RateGiven: true, Rate: rateLimit{100, 50}, Limits: limits}
	l := newGuestList(&o, nil)
	for port, want := range map[string]flows.Limit{"vm1": {Rate: 100, Burst: 50}, "vm2": {Rate: 7, Burst: 7, Name: "ofpunt/switch=red"}} {
		if got := l.rate(&origin.Origin{Port: port, Switch: "red"}, nil); got != want {
			t.Errorf("%s: %+v, want %+v", port, got, want)
		}
	}
	for name, tt := range map[string]struct {
		o    bridgeOptions
		want bool
	}{
		"no limit on the rate": {bridgeOptions{RateGiven: true, Limits: limits[:1]}, false},
		"one by a label":       {bridgeOptions{RateGiven: true, Limits: limits}, true},
		"the default":          {bridgeOptions{Limits: []limit{{RateGiven: true}}}, true},
	} {
		if got := tt.o.metered(); got != tt.want {
			t.Errorf("%s: metered %v, want %v", name, got, tt.want)
		}
	}
}

// Containers and external ports are told by the tag that OVN gives them, and by the OpenFlow port
// that their packets enter by.
func TestLimitsOfTaggedGuests(t *testing.T) {
	snapshot := externalSnapshot("02:00:00:00:00:11 10.0.0.2")
	view := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: "1", Name: "patch", OFPort: 9, Localnet: "ln"}}}, nil)
	for _, tt := range []struct {
		limit limit
		want  uint32
	}{{rated("ofpunt/in-port", "9", 5), 5}, {rated("ofpunt/in-port", "1", 5), 1024}, {rated("ofpunt/vlan", "0", 5), 5}, {rated("ofpunt/vlan", "7", 5), 1024}, {rated("ofpunt/port", "x1", 5), 5}} {
		guests := listGuests(&bridgeOptions{Placement: placement.OVN, Addresses: defaultOptions("").Addresses, Limits: []limit{tt.limit}}, view, snapshot).guests
		if len(guests) != 1 || guests[0].Limit.Rate != tt.want {
			t.Errorf("%s: %+v, want one with %d", &tt.limit, guests, tt.want)
		}
	}
}

// Where no OVN database is read, a key of external_ids is one of the local Interface, whose
// changes make no view.
func TestLimitsOfLocalGuests(t *testing.T) {
	database := ovsdbtest.Start(t, "/usr/share/openvswitch/vswitch.ovsschema")
	vsctl := func(args string) {
		t.Helper()
		if out, err := exec.Command("ovs-vsctl", append([]string{"--db=" + database.Endpoint, "--no-wait", "--timeout=30"}, strings.Fields(args)...)...).CombinedOutput(); err != nil {
			t.Fatalf("ovs-vsctl %s: %v: %s", args, err, out)
		}
	}
	vsctl("add-br br-local -- add-port br-local tap1 -- set Interface tap1 external_ids:iface-id=vm1 external_ids:vm-uuid=u1 external_ids:role=web")
	database.Transact(t, "Open_vSwitch", json.RawMessage(`{"op":"update","table":"Interface","where":[["name","==","tap1"]],"row":{"ofport":4}}`))
	at, err := endpoint.Parse(database.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	views, ended := make(chan vswitch.View, 8), make(chan struct{})
	go func() {
		defer close(ended)
		_ = vswitch.Watch(ctx, at, nil, "br-local", func(v vswitch.View) { views <- v }, func(error) {})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	view := ports.NewView(<-views, nil)

	s := &server{options: defaultOptions("br-local")}
	s.options.Placement = placement.Table
	giveLimits(s, []limit{rated("ofpunt/external-id/role", "mail", 3), rated("ofpunt/port", "vm1", 7)})
	var d desired
	owner := (*vswitch.Interface)(nil)
	for i := range view.Interfaces {
		if view.Interfaces[i].IfaceID == "vm1" {
			owner = &view.Interfaces[i]
		}
	}
	for _, want := range []uint32{7, 3} {
		guests := d.want(s, view).Guests
		if len(guests) != 1 || guests[0].Limit.Rate != want {
			t.Fatalf("guests %+v, want one with %d", guests, want)
		}
		if got := s.limits.limits[s.findLimit(&openflow.PacketIn{InPort: 4}, owner)].Rate.rate; got != want {
			t.Errorf("the queries go by %d, want %d", got, want)
		}
		if want == 3 {
			break
		}
		_, changed := s.externalIDs(view)
		vsctl("set Interface tap1 external_ids:role=mail")
		select {
		case <-changed:
		case <-time.After(20 * time.Second):
			t.Fatal("nobody is told of a change")
		}
	}
	giveLimits(s, []limit{rated("ofpunt/port", "vm1", 7)})
	if _, changed := s.externalIDs(view); changed != nil {
		t.Error("external_ids are followed, and no limit is by them")
	}
}
