// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/test/lab"
)

// TestFakeSwitch runs each script with Open vSwitch beside fakeSwitch, and compares flows, meters and flow updates
// after each line.
func TestFakeSwitch(t *testing.T) {
	files := scripts(t)
	r := startOpenVSwitch(t, len(files)+1)
	for i, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { runScript(t, file, r.open(t, i)) })
	}
	t.Run("what no script does", func(t *testing.T) { refusals(newFakeSwitch(epoch), r.open(t, len(files))) })
}

// refusals are changes that the switch refuses, or that match no flow.
func refusals(s *fakeSwitch, b *realBridge) {
	s.real = b
	c := s.connect()
	s.serve(c, monitor{3})
	flow := openflow.FlowMod{Table: 3, Cookie: 1, Actions: []openflow.Action{openflow.Output{Port: openflow.PortInPort}}}
	s.change(nil, flow)
	for _, f := range []openflow.FlowMod{
		{Command: openflow.ModifyStrict, Cookie: 2, CookieMask: exactMask},
		{Command: openflow.ModifyStrict, Cookie: 1, CookieMask: exactMask},
		{Command: openflow.ModifyStrict, Priority: 1},
		{Command: openflow.DeleteStrict, Cookie: 2, CookieMask: exactMask},
		{Command: openflow.DeleteStrict, Priority: 1},
		{Command: openflow.DeleteStrict, Cookie: 1, CookieMask: exactMask},
	} {
		f.Table = flow.Table
		s.change(nil, f)
		b.compare(s, f.String())
	}
	meter := openflow.MeterMod{ID: 1, Rate: 5, Burst: 5}
	for _, command := range []openflow.Command{openflow.Modify, openflow.Delete, openflow.Add, openflow.Add, openflow.Modify} {
		meter.Command = command
		_ = s.modMeters(c, []openflow.MeterMod{meter})
		b.compare(s, meter.String())
	}
}

// openVSwitch has stopped time and a datapath in memory, which needs no root.
type openVSwitch struct{ dir string }

func startOpenVSwitch(t *testing.T, bridges int) *openVSwitch {
	t.Helper()
	const schema = "/usr/share/openvswitch/vswitch.ovsschema"
	if _, err := os.Stat(schema); err != nil {
		lab.Lack(t, "no Open vSwitch: %v", err)
	}
	db := ovsdbtest.Start(t, schema)
	r := &openVSwitch{db.Dir}
	cmd := exec.Command("ovs-vswitchd", db.Endpoint, "--enable-dummy", "--disable-system", "-vconsole:warn",
		"--pidfile="+r.path("pid"), "--unixctl="+r.path("vswitchd"))
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+r.dir, "OVS_LOGDIR="+r.dir)
	d, err := testkit.StartDaemon(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Kill()
		if t.Failed() {
			t.Logf("ovs-vswitchd: %s", d.Output.String())
		}
	})
	args := []string{"--timeout=30", "--db=" + db.Endpoint}
	for i := range bridges {
		args = append(args, "--", "add-br", fmt.Sprint(i), "--", "set", "bridge", fmt.Sprint(i), "datapath_type=dummy", "fail_mode=secure")
	}
	run(t, "ovs-vsctl", args...)
	r.appctl(t, "time/stop")
	return r
}

func (r *openVSwitch) path(name string) string { return filepath.Join(r.dir, name) }

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
}

func (r *openVSwitch) appctl(t *testing.T, args ...string) {
	t.Helper()
	run(t, "ovs-appctl", append([]string{"--timeout=30", "-t", r.path("vswitchd")}, args...)...)
}

// realBridge mirrors a fakeSwitch in Open vSwitch.
type realBridge struct {
	*openVSwitch
	t    *testing.T
	name string
	// conns has the key nil for another process.
	conns map[*fakeConn]*realConn
}

func (r *openVSwitch) open(t *testing.T, i int) *realBridge {
	b := &realBridge{openVSwitch: r, t: t, name: fmt.Sprint(i), conns: map[*fakeConn]*realConn{}}
	b.connect(nil)
	return b
}

// realConn has, since the last comparison, the updates sent by the bridge and those expected by the fake. mu guards
// sent.
type realConn struct {
	*openflow.Conn
	close    func()
	mu       sync.Mutex
	sent     []openflow.FlowUpdate
	expected []openflow.FlowUpdate
}

func (b *realBridge) connect(f *fakeConn) *realConn {
	nc, err := net.Dial("unix", b.path(b.name+".mgmt"))
	if err != nil {
		b.t.Fatal(err)
	}
	c := &realConn{}
	if c.Conn, err = openflow.NewConn(b.t.Context(), nc, openflow.Options{ControllerID: 77}); err != nil {
		b.t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = c.Serve(openflow.Handler{FlowUpdate: func(u openflow.FlowUpdate) {
			c.mu.Lock()
			c.sent = append(c.sent, u)
			c.mu.Unlock()
		}})
	}()
	c.close = sync.OnceFunc(func() {
		_ = c.Close()
		<-served
	})
	b.t.Cleanup(c.close)
	b.conns[f] = c
	return c
}

func (b *realBridge) disconnect(f *fakeConn) {
	b.conns[f].close()
	delete(b.conns, f)
}

func (b *realBridge) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("Open vSwitch: %v", err)
	}
}

func (b *realBridge) apply(by *fakeConn, mods []openflow.FlowMod) {
	b.check(b.conns[by].Apply(b.t.Context(), mods))
}

func (b *realBridge) monitor(by *fakeConn, table uint8) {
	b.check(b.conns[by].MonitorFlows(b.t.Context(), uint32(table)+1, table))
}

func (b *realBridge) modMeters(by *fakeConn, mods []openflow.MeterMod, expected error) {
	var want *openflow.SwitchError
	err := b.conns[by].ModMeters(b.t.Context(), mods)
	if errors.As(expected, &want) {
		var got *openflow.SwitchError
		if !errors.As(err, &got) || got.Type != want.Type || got.Code != want.Code {
			b.t.Errorf("Open vSwitch: %v; the fake has %v", err, want)
		}
		return
	}
	b.check(err)
}

// pass lets time pass. Open vSwitch looks only once a second for expired flows.
func (b *realBridge) pass(s *fakeSwitch, d time.Duration) {
	warp := func(d time.Duration) { b.appctl(b.t, "time/warp", fmt.Sprint(d.Milliseconds()), "1000") }
	warp(d)
	for range 3 {
		if slices.Equal(b.flows(), s.lines()) {
			return
		}
		warp(500 * time.Millisecond)
	}
}

func (b *realBridge) flows() (lines []string) {
	stats, err := b.conns[nil].FlowStats(b.t.Context(), openflow.FlowStatsRequest{Table: openflow.TableAll})
	b.check(err)
	for _, f := range stats {
		lines = append(lines, line(f.Table, f.Priority, f.Match, f.Cookie, f.HardTimeout, f.IdleTimeout, f.Instructions))
	}
	slices.Sort(lines)
	return lines
}

func (s *fakeSwitch) lines() (lines []string) {
	for _, f := range s.flows {
		m := &f.mod
		lines = append(lines, line(m.Table, m.Priority, m.Match, m.Cookie, m.HardTimeout, m.IdleTimeout, instructionsOf(m)))
	}
	slices.Sort(lines)
	return lines
}

func instructionsOf(f *openflow.FlowMod) []byte {
	if len(f.Actions) == 0 {
		return nil
	}
	actions := openflow.AppendActions(nil, openflow.V15, f.Actions...)
	n := len(actions) + 8
	return append([]byte{0, 4, byte(n >> 8), byte(n), 0, 0, 0, 0}, actions...)
}

func (b *realBridge) packet(guest placement.Key, to netip.Addr) { b.send(guest, to, nil) }

func (b *realBridge) send(guest placement.Key, to netip.Addr, payload []byte) {
	c := b.conns[nil]
	actions := openflow.AppendActions(nil, c.Version(),
		openflow.SetField{Field: openflow.Metadata(uint64(guest.Datapath))}, openflow.SetField{Field: openflow.Reg(placement.RegInPort, guest.Port)},
		openflow.Resubmit{Table: placement.EgressTable})
	packet := slices.Concat(make([]byte, 12), []byte{8, 0, 0x45, 0, 0, byte(20 + len(payload)), 0, 0, 0, 0, 64, 6, 0, 0}, segmentFrom.AsSlice(), to.AsSlice(), payload)
	msg, err := openflow.AppendPacketOut(nil, c.Version(), c.NextXID(), openflow.PortController, actions, packet)
	b.check(err)
	b.check(c.Write(msg, openflow.Now, false))
}

func (b *realBridge) segment(guest placement.Key, to netip.Addr, flags uint16) {
	b.send(guest, to, []byte{1000 >> 8, 1000 & 0xff, 443 >> 8, 443 & 0xff, 0, 0, 0, 1, 0, 0, 0, 1, 5 << 4, byte(flags), 0, 0, 0, 0, 0, 0})
}

func line(table uint8, priority uint16, match openflow.Match, cookie uint64, hardTimeout, idleTimeout uint16, instructions []byte) string {
	if isConnection(cookie) && hardTimeout > 0 {
		instructions = nil // Open vSwitch writes other headers for the same fields into a learn action
	}
	return fmt.Sprintf("table %d, priority %d, %v, cookie %#x, timeouts %d and %d, instructions %x", table, priority, match, cookie, hardTimeout, idleTimeout, instructions)
}

func (b *realBridge) compare(s *fakeSwitch, after string) {
	b.t.Helper()
	differ := func(what string, got, want any) {
		b.t.Helper()
		if d := gocmp.Diff(got, want); d != "" {
			b.t.Fatalf("after %q the %s differ (-Open vSwitch +fake):\n%s", after, what, d)
		}
	}
	differ("flows", b.flows(), s.lines())
	var meters []openflow.MeterConfig
	for _, m := range s.meters {
		meters = append(meters, m)
	}
	there, err := b.conns[nil].Meters(b.t.Context())
	b.check(err)
	byID := func(x, y openflow.MeterConfig) int { return int(x.ID) - int(y.ID) }
	slices.SortFunc(meters, byID)
	slices.SortFunc(there, byID)
	differ("meters", there, meters)
	for _, c := range b.conns {
		b.check(c.Barrier(b.t.Context()))
		c.mu.Lock()
		differ("updates of a connection", updateLines(c.sent), updateLines(c.expected))
		c.sent, c.expected = nil, nil
		c.mu.Unlock()
	}
}

// updateLines sorts updates. Open vSwitch sends one FlowOwn for a bundle, and reports learned flows with a later
// change.
func updateLines(updates []openflow.FlowUpdate) (lines []string) {
	const own = "own"
	for _, u := range updates {
		if isConnection(u.Cookie) && u.Event == openflow.FlowAdded {
			continue
		}
		switch text := fmt.Sprintf("%v, table %d, priority %d, %v, cookie %#x, reason %d", u.Event, u.Table, u.Priority, u.Match, u.Cookie, u.Reason); {
		case u.Event != openflow.FlowOwn:
			lines = append(lines, text)
		case !slices.Contains(lines, own):
			lines = append(lines, own)
		}
	}
	slices.SortFunc(lines, strings.Compare)
	return lines
}
