// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/testkit/golden"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

func TestNetworkLog(t *testing.T) {
	var l networkLog
	for _, step := range []struct {
		now          map[string]string
		begun, ended []string
	}{
		{map[string]string{}, nil, nil},
		{map[string]string{"b": "one", "a": "one"}, []string{"a", "b"}, nil},
		{map[string]string{"b": "one", "a": "one"}, nil, nil},
		{map[string]string{"b": "another"}, []string{"b"}, []string{"a"}},
		{map[string]string{"b": "another"}, nil, nil},
		{nil, nil, []string{"b"}},
	} {
		if begun, ended := l.update(step.now); !slices.Equal(begun, step.begun) || !slices.Equal(ended, step.ended) {
			t.Errorf("%v: %v and %v, want %v and %v", step.now, begun, ended, step.begun, step.ended)
		}
	}
}

func TestOwnAddressesRequested(t *testing.T) {
	database := ovsdbtest.Start(t, "/usr/share/ovn/ovn-nb.ovsschema")
	var ops []any
	for _, op := range []string{
		`{"op":"insert","table":"DHCP_Options","uuid-name":"d","row":{"cidr":"10.0.0.0/24","options":["map",[["dns_server","9.9.9.9"]]]}}`,
		`{"op":"insert","table":"Logical_Router_Port","uuid-name":"lrp","row":{"name":"lrp","mac":"02:00:00:00:00:01","networks":"10.0.0.1/24"}}`,
		`{"op":"insert","table":"Logical_Router","row":{"name":"r","ports":["named-uuid","lrp"]}}`,
		`{"op":"insert","table":"Logical_Switch_Port","uuid-name":"r","row":{"name":"r","type":"router","addresses":"router","options":["map",[["router-port","lrp"]]]}}`,
		`{"op":"insert","table":"Logical_Switch_Port","uuid-name":"vm","row":{"name":"vm","dhcpv4_options":["named-uuid","d"],"addresses":"02:00:00:00:00:02 10.0.0.2"}}`,
		`{"op":"insert","table":"Logical_Switch","row":{"name":"red","ports":["set",[["named-uuid","vm"],["named-uuid","r"]]]}}`,
	} {
		ops = append(ops, json.RawMessage(op))
	}
	database.Transact(t, "OVN_Northbound", ops...)
	view := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: "1", Name: "tap", IfaceID: "vm", OFPort: 5}}}, nil)
	for _, tt := range []struct {
		dhcp, gateways bool
		want           string
	}{{true, true, "[9.9.9.9:53 10.0.0.1:53]"}, {true, false, "[9.9.9.9:53]"}, {false, true, "[10.0.0.1:53]"}} {
		o := config.Default("br-requests")
		o.Placement, o.Resolvers, o.DHCP, o.Gateways = placement.Table, nil, tt.dhcp, tt.gateways
		s := newTestServer(o, nil)
		s.HasDatabase, s.Database = true, ovndb.Config{Northbound: []string{database.Endpoint}}
		if err := s.Open(); err != nil {
			t.Fatal(err)
		}
		s.applyView(view)
		testkit.OnChange(t, s.source, "the guest has "+tt.want, func() error {
			served := s.Book(view).List().Served
			if len(served) != 1 || fmt.Sprint(served[0].Addresses) != tt.want {
				return fmt.Errorf("guests %+v", served)
			}
			return nil
		})
		s.Close()
	}
}

// The local database may be read just after flows were planned without it.
func TestReportsBeforeFirstList(t *testing.T) {
	s, _ := pairSession(t, func() {})
	srv := s.bridge.current.Load()
	if w := s.desired.want(srv, nil); w.Unready == "" || len(w.Guests) > 0 {
		t.Fatalf("%+v", w)
	}
	s.bridge.ports.Set(ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{Name: "tap-a", OFPort: 1, IfaceID: "a"}}}, nil))
	s.reportAddressless(&srv.Options.Config)
	s.reportLeft()
	s.reportFunctions()
	s.reportNobodyServed(srv)
	s.show(srv)
	if n := s.bridge.state.Load().List.WithoutResolver(); n != 0 {
		t.Errorf("%d guests without a resolver address", n)
	}
}

// Lost addresses are a warning, regained addresses are not.
func TestAddresslessLevels(t *testing.T) {
	out := testkit.CaptureLog(t)
	s, _ := pairSession(t, func() {})
	c := &guests.Config{DHCP: true}
	a, more := guests.NetworkName{Switch: "a"}, guests.NetworkName{Switch: "b"}
	s.desired.list = &guests.List{Without: map[guests.NetworkName]guests.WithoutResolver{a: {Guests: 3}}}
	s.reportAddressless(c)
	s.desired.list = &guests.List{}
	s.reportAddressless(c)

	before, after := s.bridge.current.Load(), chainServer(t)
	after.setRules(func(c *guests.Config) { c.DHCP, c.Resolvers = true, nil })
	s.bridge.ports.Set(ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{Name: "tap-a", OFPort: 1, IfaceID: "a"}}}, nil))
	s.bridge.served.set(before, 5)
	s.bridge.current.Store(after)
	s.bridge.served.set(after, 0)
	s.desired.list = &guests.List{Without: map[guests.NetworkName]guests.WithoutResolver{a: {Guests: 3}, more: {Guests: 2}}}
	s.reportNobodyServed(after)
	s.reportNobodyServed(after)
	lines := regexp.MustCompile(`\[(?:WARNING|INFO)\] .*(?:switch "a" |: 5;).*`).FindAllString(out.String(), -1)
	golden.Check(t, strings.Join(lines, "\n"), (&guests.WithoutResolver{}).Why(c), "WHY")
}
