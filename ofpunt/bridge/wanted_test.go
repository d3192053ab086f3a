// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/ovn/ovntest"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/testkit/golden"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// southbound is a database with n guests of one network and one record, its server, and the local database's view.
type southbound struct {
	t        testing.TB
	database *ovsdbtest.Server
	server   *Server
	view     *ports.View
	records  int
}

func newSouthbound(t testing.TB, n int, change ...func(*Server)) *southbound {
	s := &southbound{t: t, database: ovsdbtest.Start(t, "/usr/share/ovn/ovn-sb.ovsschema")}
	ops := []any{
		json.RawMessage(`{"op":"insert","table":"Encap","uuid-name":"en","row":{"type":"geneve","ip":"192.0.2.1","chassis_name":"hv1"}}`),
		json.RawMessage(`{"op":"insert","table":"Chassis","uuid-name":"ch","row":{"name":"hv1","encaps":["named-uuid","en"]}}`),
		json.RawMessage(`{"op":"insert","table":"Datapath_Binding","uuid-name":"dp","row":{"tunnel_key":1,"external_ids":["map",[["name","a"],["logical-switch","11111111-1111-4111-8111-111111111111"]]]}}`),
		json.RawMessage(`{"op":"insert","table":"DNS","row":{"datapaths":["named-uuid","dp"],"records":["map",[["vm","10.0.0.1"]]]}}`),
		json.RawMessage(`{"op":"insert","table":"Logical_Flow","row":{"logical_datapath":["named-uuid","dp"],"pipeline":"ingress","table_id":22,"priority":0,"match":"1","actions":"next;","external_ids":["map",[["stage-name","ls_in_dns_lookup"]]]}}`),
	}
	var local vswitch.View
	for i := range n {
		ops = append(ops, json.RawMessage(fmt.Sprintf(`{"op":"insert","table":"Port_Binding","row":{"logical_port":"p%d","tunnel_key":%d,"datapath":["named-uuid","dp"],"chassis":["named-uuid","ch"],"mac":"02:00:00:00:00:01 10.1.%d.%d"}}`, i, i+1, i/250, i%250)))
		local.Interfaces = append(local.Interfaces, vswitch.Interface{UUID: fmt.Sprint(i), Name: fmt.Sprint("tap", i), IfaceID: fmt.Sprint("p", i), OFPort: uint32(i + 1)})
	}
	s.database.Transact(t, "OVN_Southbound", ops...)
	s.view = ports.NewView(local, nil)
	o := config.Default("br-desired")
	o.Chassis = "hv1"
	s.server = newTestServer(o, nil)
	s.server.HasDatabase, s.server.Database = true, ovndb.Config{Southbound: []string{s.database.Endpoint}}
	for _, f := range change {
		f(s.server)
	}
	if err := s.server.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.server.Close)
	s.server.applyView(s.view)
	s.until(func(now *ovn.Snapshot) bool { return now.Settled && countGuests(now) == n })
	return s
}

func countGuests(s *ovn.Snapshot) (n int) {
	for range s.Guests() {
		n++
	}
	return n
}

func (s *southbound) until(right func(*ovn.Snapshot) bool) {
	s.t.Helper()
	testkit.OnChange(s.t, s.server.source, "a snapshot", func() bool { return right(s.server.source.Snapshot()) })
}

func (s *southbound) change() {
	s.t.Helper()
	s.records++
	before := s.server.source.Snapshot()
	s.database.Transact(s.t, "OVN_Southbound", json.RawMessage(fmt.Sprintf(`{"op":"update","table":"DNS","where":[],"row":{"records":["map",[["vm","10.%d.%d.1"]]]}}`, s.records/250%250, s.records%250)))
	s.until(func(now *ovn.Snapshot) bool { return now != before })
}

// A changed record leaves the list of guests, a port's new address renews it.
func TestDesiredAfterChange(t *testing.T) {
	data := ovntest.NetworkA(3)
	made, _ := ovn.NewPorts(data)
	network := ovn.NetworkData{ID: data.Network, Name: data.Switch, Ports: made}
	snapshot := new(ovn.Snapshot).Edit().Put(ovn.NewNetwork(network)).SetStage(ovn.Stage{Table: 22, Cookies: []uint32{5}}).Done()
	snapshot.Settled = true
	srv, view := newTestServer(config.Default("br-desired"), nil), ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: "1", Name: "tap"}}}, nil)
	var d desired
	want := func() *flows.Want {
		srv.source = ovndb.ReaderOf(snapshot)
		return d.want(srv, view)
	}
	first := want()
	if len(first.Guests) != 3 || !first.Settled || len(first.Stage.Cookies) != 1 || first.Stage.TableID != 22 || first.Unready != "" {
		t.Fatalf("%+v", first)
	}
	network.Tables = []*names.Table{names.NewTable([16]byte{1})}
	snapshot = snapshot.Edit().Put(ovn.NewNetwork(network)).Done()
	if second := want(); &second.Guests[0] != &first.Guests[0] {
		t.Error("the guests are listed anew for a record")
	}
	data.Ports[0].Addresses = []netip.Addr{netip.MustParseAddr("169.254.169.254")}
	network.Ports, _ = ovn.NewPorts(data)
	snapshot = snapshot.Edit().Put(ovn.NewNetwork(network)).Done()
	for _, g := range want().Guests {
		if len(g.Owned) != 1 || g.Owned[0] != first.Service.Addresses[0].Addr() {
			t.Errorf("guest %v: owned are %v", g.Key, g.Owned)
		}
	}
	golden.Check(t, fmt.Sprintf("not read: %s\nno bridge: %s", d.want(srv, nil).Unready, d.want(srv, ports.NewView(vswitch.View{}, nil)).Unready))
}

type obedientSwitch struct{ flows.Switch }

func (obedientSwitch) MonitorFlows(context.Context, uint32, uint8) error      { return nil }
func (obedientSwitch) Barrier(context.Context) error                          { return nil }
func (obedientSwitch) Apply(context.Context, []openflow.FlowMod) error        { return nil }
func (obedientSwitch) MaxMeter(context.Context) (uint32, error)               { return 1 << 18, nil }
func (obedientSwitch) Meters(context.Context) ([]openflow.MeterConfig, error) { return nil, nil }
func (obedientSwitch) ModMeters(context.Context, []openflow.MeterMod) error   { return nil }
func (obedientSwitch) FlowStats(_ context.Context, r openflow.FlowStatsRequest) ([]openflow.FlowStats, error) {
	return []openflow.FlowStats{{Table: 30, Cookie: r.Cookie}}, nil
}

// BenchmarkRecordChanged measures a session's work for a changed record: the same for many guests as for few.
// ns/reconcile excludes the database.
func BenchmarkRecordChanged(b *testing.B) {
	for _, n := range []int{20, 1000} {
		b.Run(fmt.Sprintf("%d guests", n), func(b *testing.B) {
			s := newSouthbound(b, n)
			session, _ := pairSession(b, func() {})
			session.bridge.ports.Set(s.view)
			placed := 0
			session.flows = flows.NewReconciler(obedientSwitch{}, new(flows.Memory), func(c flows.Report) {
				if p, ok := c.(flows.Placed); ok {
					placed = p.Guests
				}
			})
			if err := session.reconcile(b.Context(), s.server); err != nil || placed != n {
				b.Fatalf("%d guests are placed, want %d; %v", placed, n, err)
			}
			took, times := time.Duration(0), 0
			for b.Loop() {
				s.change()
				began := time.Now()
				if err := session.reconcile(b.Context(), s.server); err != nil {
					b.Fatal(err)
				}
				took += time.Since(began)
				times++
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(times), "ns/reconcile")
		})
	}
}

func TestNetworksOfGuests(t *testing.T) {
	view := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{
		{Name: "a", OFPort: 1, IfaceID: "a", NetworkID: "red"}, {Name: "b", OFPort: 2, IfaceID: "b", NetworkID: "red"},
		{Name: "c", OFPort: 3, IfaceID: "c"}, {Name: "d", OFPort: 4, NetworkID: "blue"}, {Name: "e", IfaceID: "e", NetworkID: "green"},
	}}, nil)
	networks := func(kind placement.Kind, snapshot *ovn.Snapshot) map[metric.Network]struct{} {
		return networksOf(guests.At(guests.NewRules(guests.Config{Placement: kind}), snapshot, view).List())
	}
	if d := cmp.Diff(map[metric.Network]struct{}{{Switch: "red"}: {}, {}: {}}, networks(placement.Table, nil)); d != "" {
		t.Error(d)
	}
	id := [16]byte{0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x41, 0x11, 0x81, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11}
	if d := cmp.Diff(map[metric.Network]struct{}{{ID: id, Switch: "red"}: {}}, networks(placement.OVN, ovntest.External("02:00:00:00:00:11 10.0.0.2"))); d != "" {
		t.Error(d)
	}
}
