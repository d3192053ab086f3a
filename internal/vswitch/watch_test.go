// SPDX-License-Identifier: Apache-2.0

package vswitch_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/endpoint/endpointtest"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/vswitch"
)

func TestRestart(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, schema)
	vsctl(t, s, strings.Fields("set Open_vSwitch . external_ids:system-id=hv1 -- add-br br-int -- add-port br-int tap1")...)
	o := observe(t, parse(t, s.Endpoint), nil)
	tap := vswitch.Interface{Name: "tap1", Port: "tap1"}
	local := vswitch.Interface{Name: "br-int", Port: "br-int", Type: "internal"}
	if diff := cmp.Diff(*view("hv1", local, tap), o.view(t), sansUUID); diff != "" {
		t.Fatalf("first (-want +got):\n%s", diff)
	}
	o.up(t)

	s.Stop(t)
	_ = o.down(t)
	s.Start(t)
	// Nothing has changed: no View.
	o.up(t)

	s.Stop(t)
	_ = o.down(t)
	s.Empty(t)
	s.Start(t)
	// The client may be there before the new content.
	if diff := cmp.Diff(vswitch.View{}, o.recovered(t), sansUUID); diff != "" {
		t.Fatalf("empty (-want +got):\n%s", diff)
	}
	o.up(t)
	vsctl(t, s, strings.Fields("set Open_vSwitch . external_ids:system-id=hv2 -- add-br br-int")...)
	if diff := cmp.Diff(*view("hv2", local), o.view(t), sansUUID); diff != "" {
		t.Fatalf("other content (-want +got):\n%s", diff)
	}
}

// TestReplica reads a copy of the database that another ovsdb-server serves, as in docs/security.md: the copy
// follows changes and a restart of the database, and refuses writes.
func TestReplica(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, schema)
	vsctl(t, s, strings.Fields("set Open_vSwitch . external_ids:system-id=hv1 -- add-br br-int -- add-port br-int tap1")...)
	replica := ovsdbtest.StartArgs(t, []string{"--sync-from=" + s.Endpoint}, schema)
	views := make(chan vswitch.View, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- vswitch.Watch(ctx, parse(t, replica.Endpoint), nil, "br-int", func(v vswitch.View) { views <- v }, func(error) {})
	}()
	defer func() {
		cancel()
		<-done
	}()
	local := vswitch.Interface{Name: "br-int", Port: "br-int", Type: "internal"}
	tap := func(name string) vswitch.Interface { return vswitch.Interface{Name: name, Port: name} }
	// The client may be there before the copy is whole.
	until := func(what string, want *vswitch.View) {
		t.Helper()
		for late := time.After(time.Minute); ; {
			select {
			case got := <-views:
				if cmp.Diff(*want, got, sansUUID) == "" {
					return
				}
				t.Logf("%s: so far %+v", what, got)
			case <-late:
				t.Fatalf("%s: not within a minute", what)
			}
		}
	}
	until("first", view("hv1", local, tap("tap1")))
	vsctl(t, s, strings.Fields("add-port br-int tap2")...)
	until("another port", view("hv1", local, tap("tap1"), tap("tap2")))
	write := `["Open_vSwitch",{"op":"insert","table":"Manager","row":{"target":"punix:/tmp/x"}}]`
	if out, err := exec.Command("ovsdb-client", "transact", replica.Endpoint, write).CombinedOutput(); err != nil || !strings.Contains(string(out), "not allowed") {
		t.Errorf("a write is answered %s, %v", out, err)
	}
	s.Stop(t)
	s.Start(t)
	vsctl(t, s, strings.Fields("add-port br-int tap3")...)
	until("a port added behind a restart", view("hv1", local, tap("tap1"), tap("tap2"), tap("tap3")))
}

// The database is asked for again at least once a second, however long it was away:
// ovs-vswitchd may be back in that time, with other ports.
func TestRetries(t *testing.T) {
	t.Parallel()
	b := vswitch.NewBackoff()
	for waited := time.Duration(0); waited < time.Minute; {
		d := b.Next()
		if d <= 0 || d > time.Second {
			t.Fatalf("after %v the next session waits for %v", waited, d)
		}
		waited += d
	}
}

func TestNotThereAtFirst(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, schema)
	s.Stop(t)
	o := observe(t, parse(t, s.Endpoint), nil)
	if err := o.down(t); !strings.Contains(err.Error(), s.Dir) {
		t.Errorf("%v: want the path of the socket", err)
	}
	s.Start(t)
	if diff := cmp.Diff(vswitch.View{}, o.recovered(t), sansUUID); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	o.up(t)
}

func TestHangingServer(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, schema)
	// A probe is under way soon, and its answer has all of the patience.
	o := observeBy(t, func(ctx context.Context, onChange func(vswitch.View), onState func(error)) error {
		return vswitch.WatchProbing(ctx, parse(t, s.Endpoint), nil, "br-int", 200*time.Millisecond, onChange, onState)
	})
	o.view(t)
	o.up(t)
	s.Signal(t, syscall.SIGSTOP)
	if err := o.down(t); !strings.Contains(err.Error(), "no answer") {
		t.Errorf("%v: want that there was no answer", err)
	}
	s.Signal(t, syscall.SIGCONT)
	o.up(t)
	vsctl(t, s, "set", "Open_vSwitch", ".", "external_ids:system-id=hv1")
	if diff := cmp.Diff(*view("hv1"), o.view(t), sansUUID); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

// TestNoSuchServer wants one state for each, and the end when the context ends.
func TestNoSuchServer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		serve func(net.Conn)
		want  string
	}{
		{"says nothing", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, "no answer"},
		{"hangs up", func(net.Conn) {}, ""},
		{"speaks otherwise", func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := observe(t, parse(t, "tcp:"+listen(t, tc.serve)), nil)
			if err := o.down(t); !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v: want %q in it", err, tc.want)
			}
			o.stop()
		})
	}
}

// TestSameFailure has every try fail alike except for the local port.
func TestSameFailure(t *testing.T) {
	t.Parallel()
	tries := make(chan struct{})
	ended := t.Context().Done()
	o := observe(t, parse(t, "tcp:"+listen(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		// Closing sends a reset.
		_ = c.(*net.TCPConn).SetLinger(0)
		select {
		case tries <- struct{}{}:
		case <-ended:
		}
	})), nil)
	<-tries
	if err := o.down(t); !strings.Contains(err.Error(), "reset") {
		t.Fatalf("%v: want a reset", err)
	}
	// Watch waits for the return of onState, so a second call would end the sessions.
	for range 3 {
		select {
		case <-tries:
		case err := <-o.states:
			t.Fatalf("the same state again: %v", err)
		}
	}
}

func listen(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}

func TestNoSuchSchema(t *testing.T) {
	t.Parallel()
	column := `{"columns": {"name": {"type": "string"}}}`
	for _, tc := range []struct {
		name, schema, want string
	}{
		{"another database", `{"name": "Other", "version": "1.0.0", "tables": {"Bridge": ` + column + `}}`, "Open_vSwitch not found"},
		{"tables and columns missing", `{"name": "Open_vSwitch", "version": "1.0.0", "tables": {"Bridge": ` + column + `}}`, "validation"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := ovsdbtest.Start(t, tc.schema)
			o := observe(t, parse(t, s.Endpoint), nil)
			if err := o.down(t); !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v: want %q in it", err, tc.want)
			}
		})
	}
}

func TestEndpoints(t *testing.T) {
	ca := endpointtest.NewCA(t)
	files := ca.Issue(t, t.TempDir(), "ovsdb")
	s := ovsdbtest.StartArgs(t, []string{
		"--remote=pssl:0:127.0.0.1", "--certificate=" + files.Cert, "--private-key=" + files.Key, "--ca-cert=" + files.CA,
	}, schema)
	plain := ovsdbtest.StartArgs(t, []string{"--remote=ptcp:0:[::1]"}, schema)
	cfg, err := files.Config(false)
	if err != nil {
		t.Fatal(err)
	}
	// What an URL would take for something else.
	odd := filepath.Join(s.Dir, "a %2f?b#c:d")
	if err := os.Symlink(filepath.Join(s.Dir, "sock"), odd); err != nil {
		t.Fatal(err)
	}
	t.Chdir(s.Dir)
	for _, tc := range []struct {
		name, endpoint string
		cfg            *tls.Config
	}{
		{"unix", s.Endpoint, nil},
		{"unix, relative", "unix:sock", nil},
		{"unix, odd path", "unix:" + odd, nil},
		{"tcp", "tcp:[::1]:" + plain.Port(t), nil},
		{"ssl", "ssl:127.0.0.1:" + s.Port(t), cfg},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := observe(t, parse(t, tc.endpoint), tc.cfg)
			o.view(t)
			o.up(t)
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, endpoint, want string
	}{
		{"passive tcp", "ptcp:6640", "tcp:HOST:PORT"},
		{"passive ssl", "pssl:6640", "ssl:HOST:PORT"},
		{"no certificate", "ssl:127.0.0.1:6640", "certificate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := vswitch.Watch(t.Context(), parse(t, tc.endpoint), nil, "br-int",
				func(vswitch.View) { t.Error("a View") }, func(err error) { t.Errorf("a state: %v", err) })
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), tc.endpoint) {
				t.Errorf("%v: want %q and %q in it", err, tc.endpoint, tc.want)
			}
		})
	}
}

func TestEndedContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := vswitch.Watch(ctx, endpoint.Endpoint{Network: "unix", Address: filepath.Join(t.TempDir(), "sock")}, nil, "br-int",
		func(vswitch.View) { t.Error("a View") }, func(err error) { t.Errorf("a state: %v", err) })
	if err != context.Canceled {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}
