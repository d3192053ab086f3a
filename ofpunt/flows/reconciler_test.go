// SPDX-License-Identifier: Apache-2.0

package flows_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// conn accepts everything and reports nothing by itself.
type conn struct {
	wrote    [][]byte
	writeErr error
	requests []string
	before   func(request string)
	err      error
}

func (c *conn) did(request string) error {
	c.requests = append(c.requests, request)
	if c.before != nil {
		c.before(request)
	}
	return c.err
}

func (c *conn) MonitorFlows(context.Context, uint32, uint8) error { return c.did("monitor") }
func (c *conn) FlowStats(context.Context, openflow.FlowStatsRequest) ([]openflow.FlowStats, error) {
	return nil, c.did("flows")
}
func (c *conn) Barrier(context.Context) error                             { return c.did("barrier") }
func (c *conn) Apply(context.Context, []openflow.FlowMod) error           { return c.did("apply") }
func (c *conn) MaxMeter(context.Context) (uint32, error)                  { return 0, c.did("max meter") }
func (c *conn) Meters(context.Context) ([]openflow.MeterConfig, error)    { return nil, c.did("meters") }
func (c *conn) ModMeters(context.Context, []openflow.MeterMod) error      { return c.did("mod meters") }
func (c *conn) MeterStats(context.Context) ([]openflow.MeterStats, error) { return nil, c.did("stats") }
func (c *conn) Version() openflow.Version                                 { return openflow.V15 }
func (c *conn) NextXID() uint32                                           { return 1 }
func (c *conn) Write(b []byte, _ openflow.When, _ bool) error {
	if c.writeErr == nil {
		c.wrote = append(c.wrote, slices.Clone(b))
	}
	return c.writeErr
}

func wanted() flows.Desired {
	return flows.Desired{Want: &flows.Want{
		Settled: true, Kind: placement.Table, Table: 60, Priority: 102, Heartbeat: 5 * time.Second,
		Service: placement.Service{Addresses: []netip.AddrPort{netip.MustParseAddrPort("169.254.169.254:53")}, ControllerID: 7, Lease: 15},
		Guests:  []flows.Guest{{Guest: placement.Guest{Key: placement.Key{Port: 3}}}},
	}}
}

func placed(t *testing.T) (r *flows.Reconciler, c *conn, reports *[]flows.Report) {
	c, reports = &conn{}, new([]flows.Report)
	r = flows.NewReconciler(c, new(flows.Memory), func(r flows.Report) { *reports = append(*reports, r) })
	t.Cleanup(r.Stop)
	if err := r.Handle(t.Context(), wanted()); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(*reports, flows.Report(flows.Serving{})) {
		t.Fatalf("reports %v", *reports)
	}
	*reports, c.requests = nil, nil
	return r, c, reports
}

func probed(t *testing.T, c *conn) uint64 {
	t.Helper()
	if len(c.wrote) == 0 {
		t.Fatal("no probe was sent")
	}
	msg := c.wrote[len(c.wrote)-1]
	token := uint64(0)
	for _, b := range msg[len(msg)-8:] {
		token = token<<8 | uint64(b)
	}
	return token
}

const packetOut, flowMod = 13, 14

// Only the outstanding probe counts, once, and renews the lease flow.
func TestProbeToken(t *testing.T) {
	r, c, reports := placed(t)
	came := func() bool {
		t.Helper()
		*reports = nil
		if err := r.Handle(t.Context()); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(*reports, func(r flows.Report) bool { _, ok := r.(flows.ProbeTook); return ok })
	}
	if r.ProbeBack(0); came() {
		t.Error("a probe that nobody has sent")
	}
	if err := r.Handle(t.Context(), flows.Heartbeat{}); err != nil {
		t.Fatal(err)
	}
	token := probed(t, c)
	for _, wrong := range []uint64{0, 1, token + 1, token >> 1} {
		if r.ProbeBack(wrong); came() {
			t.Errorf("token %x counts", wrong)
		}
	}
	if len(c.wrote) != 1 || c.wrote[0][1] != packetOut {
		t.Errorf("%d messages were written, want the probe", len(c.wrote))
	}
	before := r.State()
	if before.Cookie == 0 || before.Leased.IsZero() || !before.Probed.IsZero() || before.Overdue || before.Yielding {
		t.Errorf("before the probe: %+v", before)
	}
	if r.ProbeBack(token); !came() {
		t.Error("the right token does not count")
	}
	if !slices.Contains(*reports, flows.Report(flows.Renewed{})) {
		t.Errorf("reports %v, want a renewal", *reports)
	}
	if s := r.State(); s.Cookie != before.Cookie || !s.Leased.After(before.Leased) || !s.Probed.Equal(s.Leased) {
		t.Errorf("after the probe: %+v, before: %+v", s, before)
	}
	if len(c.wrote) != 2 || c.wrote[1][1] != flowMod {
		t.Errorf("%d messages were written, want the probe and a renewal", len(c.wrote))
	}
	if r.ProbeBack(token); came() {
		t.Error("it counts again")
	}
}

// A full queue counts as a missed probe. Any other error ends the connection.
func TestProbeWithoutRoom(t *testing.T) {
	r, c, reports := placed(t)
	c.writeErr = openflow.ErrQueueFull
	for range 3 {
		if err := r.Handle(t.Context(), flows.Heartbeat{}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []flows.Report{flows.ProbeMissed{Heartbeat: 5 * time.Second}}; !slices.Equal(*reports, want) {
		t.Errorf("reports %v, want %v", *reports, want)
	}
	c.writeErr = nil
	if err := r.Handle(t.Context(), flows.Heartbeat{}); err != nil {
		t.Fatal(err)
	}
	*reports = nil
	r.ProbeBack(probed(t, c))
	if err := r.Handle(t.Context()); err != nil || !slices.Contains(*reports, flows.Report(flows.ProbesBack{})) {
		t.Errorf("reports %v, %v", *reports, err)
	}
	c.writeErr = errors.New("gone")
	if err := r.Handle(t.Context(), flows.Heartbeat{}); !errors.Is(err, c.writeErr) {
		t.Errorf("error %v", err)
	}
}

// A failed renewal does not end the connection.
func TestRenewFails(t *testing.T) {
	r, c, reports := placed(t)
	if err := r.Handle(t.Context(), flows.Heartbeat{}); err != nil {
		t.Fatal(err)
	}
	r.ProbeBack(probed(t, c))
	*reports, c.writeErr = nil, openflow.ErrQueueFull
	if err := r.Handle(t.Context()); err != nil || !slices.Contains(*reports, flows.Report(flows.RenewFailed{Err: openflow.ErrQueueFull})) {
		t.Errorf("reports %v, %v", *reports, err)
	}
}

// A returned probe does not prove a renewal.
func TestProbeWithoutRenewal(t *testing.T) {
	forGood := wanted()
	forGood.Want.Service.Lease = 0
	for name, tt := range map[string]struct {
		event  flows.Event
		refuse error
	}{
		"a lease flow for good": {event: forGood},
		"flows to be withdrawn": {event: flows.Withdraw{}},
		"a renewal that fails":  {event: wanted(), refuse: openflow.ErrQueueFull},
	} {
		t.Run(name, func(t *testing.T) {
			r, c, reports := placed(t)
			if err := r.Handle(t.Context(), flows.Heartbeat{}); err != nil {
				t.Fatal(err)
			}
			if err := r.Handle(t.Context(), tt.event); err != nil {
				t.Fatal(err)
			}
			r.ProbeBack(probed(t, c))
			c.writeErr = tt.refuse
			if err := r.Handle(t.Context()); err != nil {
				t.Fatal(err)
			}
			took := slices.ContainsFunc(*reports, func(r flows.Report) bool { _, ok := r.(flows.ProbeTook); return ok })
			if !took || slices.Contains(*reports, flows.Report(flows.Renewed{})) {
				t.Errorf("reports %v, want a probe that took some time, and no renewal", *reports)
			}
		})
	}
}

// Updates that come before a reply precede it.
func TestToldBeforeReply(t *testing.T) {
	r, c, reports := placed(t)
	removed := openflow.FlowUpdate{Event: openflow.FlowRemoved, Table: placement.PrivateTable, Priority: placement.PriorityLease, Cookie: 1, Reason: 2}
	barriers := 0
	c.before = func(request string) {
		if request != "barrier" {
			return
		}
		if barriers++; barriers == 1 {
			u := removed
			u.Priority = 0 // the rest of one command's changes
			r.FlowUpdate(u)
		}
	}
	r.FlowUpdate(removed)
	select {
	case <-r.Wake():
	default:
		t.Error("nothing says that the switch has told something")
	}
	if err := r.Handle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(*reports, flows.Report(flows.Lost{Flows: 2})) {
		t.Errorf("reports %v, want 2 flows lost at once", *reports)
	}
	if want := []string{"barrier", "max meter", "barrier", "apply"}; !slices.Equal(c.requests, want) {
		t.Errorf("requests %q, want %q", c.requests, want)
	}
}

func TestRequestFails(t *testing.T) {
	c := &conn{err: errors.New("gone")}
	r := flows.NewReconciler(c, new(flows.Memory), func(flows.Report) {})
	if err := r.Handle(t.Context(), wanted()); !errors.Is(err, c.err) {
		t.Errorf("error %v", err)
	}
}

// Retries come ever later, whatever else comes meanwhile.
func TestRetry(t *testing.T) {
	for name, every := range map[string]time.Duration{"nothing else comes": time.Hour, "a lot comes": 10 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &conn{}
				r := flows.NewReconciler(c, new(flows.Memory), func(flows.Report) {})
				defer r.Stop()
				d := wanted()
				d.Want.Kind = placement.OVN
				d.Want.Stage = flows.Stage{TableID: 22, Cookies: []uint32{0xaa}}
				if err := r.Handle(t.Context(), d); err != nil {
					t.Fatal(err)
				}
				c.requests = nil
				other := time.NewTicker(every)
				defer other.Stop()
				for began := time.Now(); time.Since(began) < 10*time.Second; {
					select {
					case <-r.Wake():
					case <-other.C:
					}
					if err := r.Handle(t.Context(), d); err != nil {
						t.Fatal(err)
					}
				}
				if n := len(c.requests); n < 20 || n > 60 || slices.ContainsFunc(c.requests, func(r string) bool { return r != "flows" }) {
					t.Errorf("%d requests in 10 s: %q", n, c.requests)
				}
			})
		})
	}
}
