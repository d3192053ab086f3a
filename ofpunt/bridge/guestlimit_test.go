// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

func giveLimits(s *Server, limits []guests.Limit) {
	s.setRules(func(c *guests.Config) { c.Limits = limits })
	s.Options.AddRequests(&s.Requests)
}

func rated(label, value string, rate uint32) guests.Limit {
	return guests.Limit{Name: label + "=" + value, Label: label, Value: value, RateGiven: true, Rate: guests.Rate{PerSecond: rate, Burst: rate}}
}

func TestLimitsOfGuests(t *testing.T) {
	s := newSouthbound(t, 4, func(s *Server) {
		giveLimits(s, []guests.Limit{
			rated("ofpunt/in-port", "3", 3), rated("ofpunt/external-id/neutron:project_id", "p", 5), rated("ofpunt/port", "p1", 7),
			{Label: "ofpunt/router", Value: "r", Connections: 9}, // above the limit of the whole network, and without a rate
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
			g, ok := s.server.Book(view).Sender(in, owner)
			if !ok {
				t.Fatalf("%s: p%d is not known", what, i)
			}
			o := g.Origin(owner.OFPort)
			if l := s.server.guests.LimitOf(&o); l != nil && l.RateGiven {
				name = l.Name
				if l.Rate.PerSecond != rate {
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

	// p0 and p2 swap OpenFlow ports.
	local := s.view.View
	local.Interfaces = append([]vswitch.Interface(nil), local.Interfaces...)
	local.Interfaces[0].OFPort, local.Interfaces[2].OFPort = 3, 1
	expect("other OpenFlow ports", ports.NewView(local, s.view), 3, 7, 11, 5)
}

// Without OVN databases external_ids are the local Interface's. Their changes make no view.
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

	s := newTestServer(config.Default("br-local"), nil)
	s.setRules(func(c *guests.Config) { c.Placement = placement.Table })
	giveLimits(s, []guests.Limit{rated("ofpunt/external-id/role", "mail", 3), rated("ofpunt/port", "vm1", 7)})
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
		g, _ := s.Book(view).Sender(&openflow.PacketIn{InPort: 4}, owner)
		if o := g.Origin(4); s.guests.LimitOf(&o).Rate.PerSecond != want {
			t.Errorf("the queries go by %+v, want %d", s.guests.LimitOf(&o), want)
		}
		if want == 3 {
			break
		}
		_, changed := s.Book(view).Version()
		vsctl("set Interface tap1 external_ids:role=mail")
		select {
		case <-changed:
		case <-time.After(20 * time.Second):
			t.Fatal("nobody is told of a change")
		}
	}
	giveLimits(s, []guests.Limit{rated("ofpunt/port", "vm1", 7)})
	if _, changed := s.Book(view).Version(); changed != nil {
		t.Error("external_ids are followed, and no limit is by them")
	}
}
