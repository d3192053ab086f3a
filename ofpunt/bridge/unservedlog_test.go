// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovntest"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

func TestUnservedPorts(t *testing.T) {
	var u unservedPorts
	for i, step := range []struct {
		ports   []string
		reasons map[string]string
		asked   []string
		want    []string
	}{
		{[]string{"a"}, map[string]string{"a": "unknown"}, nil, nil},
		{[]string{"a", "b"}, map[string]string{"a": "unknown"}, []string{"a"}, []string{`tap-a "a" unknown`}},
		{[]string{"a", "b"}, map[string]string{"a": "unknown", "b": "elsewhere"}, []string{"b", "a"}, []string{`tap-b "b" elsewhere`}}, // the reason of a is known
		{[]string{"a", "b"}, map[string]string{"a": "elsewhere", "b": "elsewhere"}, []string{"a", "b"}, []string{`tap-a "a" elsewhere`}},
		{[]string{"b"}, map[string]string{"b": "elsewhere"}, []string{"b"}, nil},
		{[]string{"a", "b"}, map[string]string{"b": "elsewhere"}, []string{"b"}, nil},
		{[]string{"a", "b"}, map[string]string{"a": "elsewhere", "b": "elsewhere"}, []string{"a", "b"}, []string{`tap-a "a" elsewhere`}},
		// The database goes and returns. The port's type is now never a guest.
		{[]string{"a"}, nil, []string{"a"}, nil},
		{[]string{"a"}, map[string]string{"a": ""}, []string{"a"}, nil},
		{[]string{"a", "b"}, nil, []string{"a"}, nil},
		{[]string{"a", "b"}, map[string]string{"b": "unknown"}, []string{"b", "a"}, []string{`tap-b "b" unknown`}},
		{[]string{"a", "b"}, nil, []string{"b", "a"}, nil}, // a is never a guest
		{[]string{"a"}, map[string]string{"a": "elsewhere"}, []string{"a"}, []string{`tap-a "a" elsewhere`}},
		{nil, nil, nil, nil},
	} {
		var v vswitch.View
		for n, port := range step.ports {
			v.Interfaces = append(v.Interfaces, vswitch.Interface{Name: "tap-" + port, IfaceID: port, OFPort: uint32(n + 1)})
		}
		lines := u.look(&guests.Config{Placement: placement.OVN}, ports.NewView(v, nil), &ovn.Snapshot{}, func(names []string) map[string]string {
			if !slices.Equal(names, step.asked) {
				t.Errorf("look %d asks of %q, expected %q", i, names, step.asked)
			}
			reasons := map[string]string{}
			for _, name := range names {
				if r, known := step.reasons[name]; known {
					reasons[name] = r
				}
			}
			return reasons
		})
		for n, line := range lines {
			lines[n] = strings.Join(regexp.MustCompile(`tap-\w|"\w"|\w+$`).FindAllString(line, -1), " ")
		}
		if d := cmp.Diff(step.want, lines); d != "" {
			t.Errorf("look %d: %s", i, d)
		}
	}
	if len(u.found) > 0 {
		t.Errorf("still counted: %v", u.found)
	}
}

// Only placement ovn leaves a port bound to another chassis unserved.
func TestUnservedElsewhere(t *testing.T) {
	for kind, want := range map[placement.Kind][]string{placement.OVN: {"p1"}, placement.Table: nil} {
		t.Run(string(kind), func(t *testing.T) {
			o := config.Default("br-unserved")
			o.Placement = kind
			view := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{Name: "tap0", IfaceID: "p0", OFPort: 1}, {Name: "tap1", IfaceID: "p1", OFPort: 2}}}, nil)
			network := ovntest.NetworkA(2)
			network.Ports[1].Local = false
			snapshot := ovntest.Snapshot(network)
			if n := len(guests.At(guests.NewRules(o.Config), snapshot, view).List().Served); n != 2-len(want) {
				t.Errorf("%d guests", n)
			}
			var u unservedPorts
			var asked []string
			for range 2 {
				u.look(&o.Config, view, snapshot, func(names []string) map[string]string {
					asked = names
					return nil
				})
			}
			if !slices.Equal(asked, want) {
				t.Errorf("reasons are asked for %q, want %q", asked, want)
			}
		})
	}
}

// placement neutron serves no guest without an interface that the agent has bound, as on an OVN chassis.
func TestNoneBound(t *testing.T) {
	vm := vswitch.Interface{Name: "tap-a", OFPort: 1, IfaceID: "a", AttachedMAC: "02:00:00:00:00:01"}
	with := func(change func(*vswitch.Interface)) vswitch.Interface {
		i := vm
		change(&i)
		return i
	}
	bound := with(func(i *vswitch.Interface) { i.Tag = 1 })
	for _, tt := range []struct {
		name       string
		placement  placement.Kind
		interfaces []vswitch.Interface
		want       bool
	}{
		{"a chassis of OVN", placement.Neutron, []vswitch.Interface{vm, with(func(i *vswitch.Interface) { i.AttachedMAC = "" })}, true},
		{"a tag alone", placement.Neutron, []vswitch.Interface{with(func(i *vswitch.Interface) { i.AttachedMAC, i.Tag = "", 1 })}, true},
		{"one is bound", placement.Neutron, []vswitch.Interface{vm, bound}, false},
		{"cut off", placement.Neutron, []vswitch.Interface{with(func(i *vswitch.Interface) { i.Tag = 4095 })}, false},
		{"the agent has bound a port of its own", placement.Neutron, []vswitch.Interface{vm, with(func(i *vswitch.Interface) { i.Type, i.Tag = "internal", 1 })}, false},
		{"an agent's port alone", placement.Neutron, []vswitch.Interface{with(func(i *vswitch.Interface) { i.Type = "internal" })}, false},
		{"no port number", placement.Neutron, []vswitch.Interface{with(func(i *vswitch.Interface) { i.OFPort = 0 })}, false},
		{"no interface", placement.Neutron, nil, false},
		{"another placement", placement.Table, []vswitch.Interface{vm}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newTestServer(config.Bridge{Name: "br-int", Config: guests.Config{Placement: tt.placement}}, nil)
			view := ports.NewView(vswitch.View{Interfaces: tt.interfaces}, nil)
			s.lookForUnbound(view)
			if got := s.BindingProblem(); got != "" {
				t.Errorf("told at the first look: %s", got)
			}
			s.lookForUnbound(view)
			if got := s.BindingProblem(); (got != "") != tt.want {
				t.Errorf("told %q", got)
			}
			s.lookForUnbound(ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{bound}}, nil))
			if got := s.BindingProblem(); got != "" {
				t.Errorf("told still, though one is bound: %s", got)
			}
		})
	}
}

func TestUnservedWithoutDatabases(t *testing.T) {
	s, _ := pairSession(t, func() {})
	s.bridge.ports.Set(ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{Name: "tap-a", OFPort: 1, IfaceID: "a"}}}, nil))
	s.bridge.unserved = unservedPorts{pending: []string{"a"}, found: map[string]string{"a": "unknown"}}
	gauge := metric.Unserved.WithLabelValues(s.bridge.name)
	gauge.Set(1)
	s.reportUnserved(s.bridge.current.Load())
	if got := testkit.Value(t, gauge); got != 0 {
		t.Errorf("the gauge is %v", got)
	}
	if u := &s.bridge.unserved; len(u.pending)+len(u.found) > 0 {
		t.Errorf("remembered still: %+v", u)
	}
}

// reloadingSwitch calls reload during the first request, and has no flows.
type reloadingSwitch struct {
	flows.Switch
	reload func()
}

func (s *reloadingSwitch) MonitorFlows(context.Context, uint32, uint8) error {
	s.reload()
	return nil
}

func (*reloadingSwitch) Barrier(context.Context) error { return nil }

func (*reloadingSwitch) Apply(context.Context, []openflow.FlowMod) error { return nil }

func (*reloadingSwitch) FlowStats(context.Context, openflow.FlowStatsRequest) ([]openflow.FlowStats, error) {
	return nil, nil
}

func (*reloadingSwitch) Meters(context.Context) ([]openflow.MeterConfig, error) { return nil, nil }

func (*reloadingSwitch) MaxMeter(context.Context) (uint32, error) { return 0, nil }

func (*reloadingSwitch) Version() openflow.Version { return openflow.V15 }

func (*reloadingSwitch) NextXID() uint32 { return 1 }

func (*reloadingSwitch) Write([]byte, openflow.When, bool) error { return nil }

// A heartbeat after a reload looks at the new server: the old server may be closed.
func TestBeatAfterReload(t *testing.T) {
	s, _ := pairSession(t, func() {})
	before, after := s.bridge.current.Load(), chainServer(t)
	before.Options.Lease, after.Options.Lease = 3*time.Millisecond, 3*time.Millisecond
	for _, srv := range []*Server{before, after} {
		srv.setRules(func(c *guests.Config) { c.Placement = placement.Neutron })
	}
	s.bridge.ports.Set(ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{Name: "tap-a", OFPort: 1, IfaceID: "a"}}}, nil))
	sw := &reloadingSwitch{reload: func() {
		s.bridge.current.Store(after)
		<-time.After(2 * Heartbeat(before.Options.Lease)) // a heartbeat is due after the request
	}}
	s.flows = flows.NewReconciler(sw, &s.bridge.flows, s.reporter.report)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- s.run(ctx, &before.Options) }()
	testkit.Eventually(t, "the new server is told of", func() bool { return after.agentBoundNone.Load() != nil })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if before.unboundSeen {
		t.Error("the old server was looked at")
	}
}

func TestServedGuests(t *testing.T) {
	a, b := new(Server), new(Server)
	var g servedGuests
	for i, step := range []struct {
		server       *Server
		guests, want int // want is -1 for no heartbeat
	}{
		{a, 0, 0}, {a, 0, 0}, {a, 3, 0}, {a, 0, 0}, {a, 2, 0}, // without a reload
		{b, 2, 0}, {b, 0, 2}, {b, 0, 0}, // a snapshot may have the previous server's guests at first
		{a, 0, 0}, {a, 0, 0}, // none before either
		{a, 1, 0}, {b, 0, 0}, {b, 1, 0}, {b, 0, 0},
		{a, 3, -1}, {b, 3, -1}, {a, 0, 0}, {a, 0, 3}, // reloads between heartbeats
	} {
		g.set(step.server, step.guests)
		if step.want < 0 {
			continue
		}
		if got := g.heartbeat(); got != step.want {
			t.Errorf("step %d: %d guests before, want %d", i, got, step.want)
		}
	}
}

// A long lease does not delay a look.
func TestLookWithoutBeat(t *testing.T) {
	s, _ := pairSession(t, func() {})
	options := &s.bridge.current.Load().Options
	options.Lease = time.Hour
	s.bridge.ports.Set(ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{Name: "tap-a", OFPort: 1, IfaceID: "a"}}}, nil))
	s.bridge.unserved = unservedPorts{found: map[string]string{"a": "unknown"}} // a look of a server without databases clears it
	gauge := metric.Unserved.WithLabelValues(s.bridge.name)
	gauge.Set(1)
	s.flows = flows.NewReconciler(&reloadingSwitch{reload: func() {}}, &s.bridge.flows, s.reporter.report)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- s.run(ctx, options) }()
	testkit.Eventually(t, "a look", func() bool { return testkit.Value(t, gauge) == 0 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
