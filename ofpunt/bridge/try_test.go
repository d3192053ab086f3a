// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/punttest"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

func connectedBridges(t *testing.T, names ...string) *Registry {
	t.Helper()
	bridges := NewRegistry(new(watch.Feed))
	for _, name := range names {
		b := &Bridge{name: name}
		b.current.Store(newTestServer(config.Default(name), nil))
		b.conn.Store(new(openflow.Conn))
		bridges.m[name] = b
	}
	t.Cleanup(bridges.accepted.closeAll)
	return bridges
}

// listened has listening's addresses: the kernel may choose a free port twice. Its tests are not parallel.
var listened = map[string]bool{}

// listening returns a server that listens for its switch on a free port. The IP address is this process's alone, so
// that no other process takes the port.
func listening(t *testing.T, bridge string) (*Server, string) {
	t.Helper()
	pid := os.Getpid()
	ln, err := net.Listen("tcp", net.IPv4(127, 77, byte(pid>>8), byte(pid)).String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if listened[ln.Addr().String()] {
		return listening(t, bridge)
	}
	listened[ln.Addr().String()] = true
	o := config.Default(bridge)
	o.OpenFlow = endpoint.Endpoint{Network: "tcp", Address: ln.Addr().String(), Listen: true}
	return newTestServer(o, nil), ln.Addr().String()
}

// Servers are tried at once, and sessions get the connections that the trial accepted.
func TestTrySideBySide(t *testing.T) {
	bridges := connectedBridges(t, "br-a", "br-b")
	a, atA := listening(t, "br-a")
	b, atB := listening(t, "br-b")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	dialled := make(chan net.Conn, 2)
	go func() {
		for _, address := range []string{atB, atA} { // the second one first
			for ctx.Err() == nil {
				if conn, err := net.Dial("tcp", address); err == nil {
					dialled <- conn
					break
				}
				time.Sleep(time.Millisecond) // not listening yet
			}
		}
	}()
	if err := bridges.tryAll(ctx, []*Server{a, b}, ""); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Server{a, b} {
		peer := <-dialled
		defer peer.Close()
		conn := bridges.accepted.take(acceptKey{s.Options.OpenFlow, s.Options.TLS})
		if conn == nil {
			t.Fatalf("%s: the connection that was accepted is not there", s.Options.Name)
		}
		conn.Close()
		if bridges.accepted.take(acceptKey{s.Options.OpenFlow, s.Options.TLS}) != nil {
			t.Errorf("%s: the connection is there twice", s.Options.Name)
		}
	}
}

func TestTryNoSwitchConnects(t *testing.T) {
	bridges := connectedBridges(t, "br-a")
	s, at := listening(t, "br-a")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := bridges.tryAll(ctx, []*Server{s}, "")
	if err == nil || !strings.Contains(err.Error(), "ofpunt br-a: openflow: ptcp:") || !errors.Is(err, errNoSwitch) {
		t.Errorf("%v", err)
	}
	ln, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()

	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := bridges.tryAll(ctx, []*Server{s}, ""); !errors.Is(err, errProcessEnds) {
		t.Errorf("%v", err)
	}
}

// A connected switch does not connect again.
func TestTryEndpoint(t *testing.T) {
	dir := t.TempDir()
	unix := func(name string) endpoint.Endpoint {
		return endpoint.Endpoint{Network: "unix", Address: filepath.Join(dir, name)}
	}
	_, at := listening(t, "br-a") // nobody connects there
	_, other := listening(t, "br-a")
	tcp := func(address string, listen bool) endpoint.Endpoint {
		return endpoint.Endpoint{Network: "tcp", Address: address, Listen: listen}
	}
	for _, tt := range []struct {
		name   string
		was, e endpoint.Endpoint
		alone  bool   // no connection
		key    string // a new TLS key
		want   error  // nil if not tried
	}{
		{"the same", unix("mgmt"), unix("mgmt"), false, "", nil},
		{"the same with another key", unix("mgmt"), unix("mgmt"), false, "key.pem", fs.ErrNotExist},
		{"another", unix("mgmt"), unix("other"), false, "", fs.ErrNotExist},
		{"another, but none is connected", unix("mgmt"), unix("other"), true, "", nil},
		{"listening on another address", tcp("0.0.0.0"+at[strings.LastIndex(at, ":"):], true), tcp(at, true), false, "", nil},
		{"listening on another port", tcp(other, true), tcp(at, true), false, "", errNoSwitch},
		{"not listening before", tcp(at, false), tcp(at, true), false, "", errNoSwitch},
		{"listening before", tcp(at, true), tcp(at, false), false, "", syscall.ECONNREFUSED},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bridges := connectedBridges(t, "br-a")
			b := bridges.Get("br-a")
			b.current.Load().Options.OpenFlow = tt.was
			if tt.alone {
				b.conn.Store(nil)
			}
			o := config.Default("br-a")
			o.OpenFlow, o.TLS.Key = tt.e, tt.key
			timeout := 20 * time.Second
			if tt.want == errNoSwitch {
				timeout = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			err := bridges.tryAll(ctx, []*Server{NewServer(Config{Options: o})}, "")
			if !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}

// A trial waits for what the Corefile requests beyond the current one. Guests are served meanwhile.
func TestTryAwaitsRequested(t *testing.T) {
	s := newSouthbound(t, 3)
	bridges := connectedBridges(t, "br-desired")
	bridges.Get("br-desired").current.Store(s.server)
	try := func(ctx context.Context, requests ovndb.Requests) error {
		next := NewServer(Config{Options: s.server.Options, HasDatabase: true, Database: s.server.Database, More: []ovndb.Requests{requests}})
		defer next.Close()
		defer func() {
			if n := countGuests(s.server.source.Snapshot()); n != 3 {
				t.Errorf("%d guests are served in the trial, want 3", n)
			}
		}()
		err := bridges.tryAll(ctx, []*Server{next}, "")
		if now := s.server.source.Snapshot(); err == nil && (!now.Settled || requests.Routers && !now.HasRouterScopes()) {
			t.Error("the trial is passed before all is told")
		}
		return err
	}
	for _, requests := range []ovndb.Requests{{Routers: true}, {Network: ovn.SwitchRef{Name: "b"}}, {}} {
		if err := try(t.Context(), requests); err != nil {
			t.Errorf("%+v: %v", requests, err)
		}
		s.until(func(now *ovn.Snapshot) bool { return now.Settled })
	}
	s.database.Stop(t)
	for _, requests := range []ovndb.Requests{{Routers: true}, {Routers: true}, {Network: ovn.SwitchRef{Name: "b"}}} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := try(ctx, requests); !errors.Is(err, errNotRead) {
			t.Errorf("%+v, no database is there: %v", requests, err)
		}
		s.until(func(now *ovn.Snapshot) bool { return now.Settled })
	}
}

// Retained guests have router scopes after the trial, though Southbound is empty.
func TestTryWhileKept(t *testing.T) {
	s := newSouthbound(t, 3)
	var ops []any
	for _, table := range []string{"DNS", "Port_Binding", "Logical_Flow", "Datapath_Binding", "Chassis"} {
		ops = append(ops, json.RawMessage(fmt.Sprintf(`{"op":"delete","table":%q,"where":[]}`, table)))
	}
	s.database.Transact(t, "OVN_Southbound", ops...)
	s.until(func(now *ovn.Snapshot) bool { return now.Settled && now.HasRetained() })
	bridges := connectedBridges(t, "br-desired")
	bridges.Get("br-desired").current.Store(s.server)
	next := NewServer(Config{Options: s.server.Options, HasDatabase: true, Database: s.server.Database, More: []ovndb.Requests{{Routers: true}}})
	defer next.Close()
	ctx, cancel := context.WithTimeout(t.Context(), trialTimeout)
	defer cancel()
	if err := bridges.tryAll(ctx, []*Server{next}, ""); err != nil {
		t.Error(err)
	}
	if now := s.server.source.Snapshot(); !now.Settled || !now.HasRouterScopes() || countGuests(now) != 3 {
		t.Errorf("settled %v, scopes %v, %d guests; want 3 with scopes", now.Settled, now.HasRouterScopes(), countGuests(now))
	}
}

// Two bridges share databases, and one requests more in an outage. The other is measured by its server's earlier
// state.
func TestTrySharedDatabases(t *testing.T) {
	s := newSouthbound(t, 3)
	bridges := connectedBridges(t, "br-a", "br-b")
	for _, name := range []string{"br-a", "br-b"} {
		b := bridges.Get(name)
		b.current.Store(s.server)
		b.ports.Set(s.view)
	}
	s.database.Stop(t)
	next := func(bridge, chassis string, requests ovndb.Requests) *Server {
		n := NewServer(Config{Options: s.server.Options, HasDatabase: true, Database: s.server.Database, More: []ovndb.Requests{requests}})
		n.Options.Name, n.Options.Chassis = bridge, chassis
		return n
	}
	for range 20 { // either may come first
		other, more := next("br-b", "nowhere", ovndb.Requests{}), next("br-a", "hv1", ovndb.Requests{Routers: true})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		err := bridges.tryAll(ctx, []*Server{other, more}, "")
		cancel()
		other.Close()
		more.Close()
		if err == nil || !regexp.MustCompile(`^ofpunt br-b: chassis: .*"nowhere"`).MatchString(err.Error()) {
			t.Fatal(err)
		}
		s.until(func(now *ovn.Snapshot) bool { return now.Settled })
	}
}

// An unknown chassis is the reason, even if a new database is unread.
func TestTryUnknownChassisWithMore(t *testing.T) {
	s := newSouthbound(t, 3)
	bridges := connectedBridges(t, "br-desired")
	b := bridges.Get("br-desired")
	b.current.Store(s.server)
	b.ports.Set(s.view)
	northbound := ovsdbtest.Start(t, "/usr/share/ovn/ovn-nb.ovsschema")
	for _, tt := range []struct{ name, chassis, northbound, want string }{
		{"unknown", "nowhere", northbound.Endpoint, `^ofpunt br-desired: chassis: .*"nowhere"`},
		{"unknown, and a database that is not there", "nowhere", "unix:" + filepath.Join(t.TempDir(), "nb"), `^ofpunt br-desired: chassis: .*"nowhere"`},
		{"a database that is not there", "hv1", "unix:" + filepath.Join(t.TempDir(), "nb"), `^ofpunt br-desired: .*OVN_Northbound: `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			next := NewServer(Config{Options: s.server.Options, HasDatabase: true, Database: s.server.Database})
			next.Options.Chassis, next.Database.Northbound = tt.chassis, []string{tt.northbound}
			defer next.Close()
			source, err := ovndb.Acquire(next.Database)
			if err != nil {
				t.Fatal(err)
			}
			defer source.Release()
			// A failure to connect changes no snapshot.
			testkit.Eventually(t, "each database is in sync, or can't be", func() bool { return isTried(source.Status()) })
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := bridges.tryAll(ctx, []*Server{next}, ""); err == nil || !regexp.MustCompile(tt.want).MatchString(err.Error()) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func isTried(s ovndb.Status) bool {
	return !slices.ContainsFunc(s, func(d ovndb.DatabaseStatus) bool { return !d.Synced && d.Err == nil })
}

// A snapshot that was enough counts, even if another server then requests more.
func TestAwaitSnapshot(t *testing.T) {
	s := newSouthbound(t, 3)
	s.database.Stop(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	isSettled := func(now *ovn.Snapshot) bool { return now.Settled }
	told := s.server.awaitSnapshot(ctx, isSettled)
	defer s.server.source.Source.Request(ovndb.Requests{Routers: true})()
	if !told || s.server.awaitSnapshot(ctx, isSettled) {
		t.Errorf("told %v, settled %v; want true, and false once more is asked for", told, s.server.settled())
	}
}

// A replaced session does not leave its closed connection to the bridge.
func TestRetiredConnection(t *testing.T) {
	conn, _ := punttest.Connect(t)
	served := make(chan error, 1)
	go func() { served <- conn.Serve(openflow.Handler{}) }()
	defer func() {
		conn.Close()
		<-served
	}()
	b := &Bridge{name: "br-a", accepted: new(acceptedConns)}
	b.conn.Store(conn)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := config.Default("br-a")
	b.retire(ctx, &session{bridge: b, conn: conn, flows: flows.NewReconciler(conn, new(flows.Memory), nil)}, &o)
	if b.conn.Load() != nil {
		t.Error("the connection is still the bridge's")
	}
	other := new(openflow.Conn)
	b.conn.Store(other)
	b.retire(ctx, &session{bridge: b, conn: conn, flows: flows.NewReconciler(conn, new(flows.Memory), nil)}, &o)
	if b.conn.Load() != other {
		t.Error("the connection that has come since is gone")
	}
}

func TestTrialLog(t *testing.T) {
	var said testkit.Lines
	l := trialLog{&said, new(atomic.Bool)}
	mark := l.mark()
	l.Infof("in sync with %s", "a")
	l.Warningf("not in sync: %d", 1)
	l.over.Store(true)
	l.Infof("in sync with %s", "b")
	l.Warningf("not in sync: %d", 2)
	want := []string{"INFO " + mark + "in sync with a", "WARNING " + mark + "not in sync: 1", "INFO in sync with b", "WARNING not in sync: 2"}
	if got := said.All(); mark == "" || !slices.Equal(got, want) {
		t.Errorf("said %q, want %q", got, want)
	}
}
