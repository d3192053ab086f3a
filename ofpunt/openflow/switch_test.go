// SPDX-License-Identifier: Apache-2.0

package openflow_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/test/lab"
)

const (
	patience  = 20 * time.Second
	ovsSchema = "/usr/share/openvswitch/vswitch.ovsschema"
)

// ovs is a real Open vSwitch in a network namespace of its own, for all the
// tests of the process.
type ovs struct {
	dir     string
	daemons []*testkit.Daemon
}

var theSwitch struct {
	sync.Mutex
	started bool
	ovs     *ovs
	err     error
}

func stopSwitch() {
	theSwitch.Lock()
	defer theSwitch.Unlock()
	if theSwitch.ovs != nil {
		theSwitch.ovs.stop()
	}
}

// realSwitch returns the Open vSwitch, which it starts at its first call.
func realSwitch(t *testing.T) *ovs {
	t.Helper()
	for _, program := range []string{"ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl"} {
		if _, err := exec.LookPath(program); err != nil {
			lab.Lack(t, "no Open vSwitch: %v", err)
		}
	}
	if os.Geteuid() != 0 {
		lab.Lack(t, "no root, for a network namespace")
	}
	theSwitch.Lock()
	defer theSwitch.Unlock()
	if !theSwitch.started {
		theSwitch.started = true
		theSwitch.ovs, theSwitch.err = startOVS()
	}
	if theSwitch.err != nil {
		t.Fatal(theSwitch.err)
	}
	return theSwitch.ovs
}

func startOVS() (o *ovs, err error) {
	dir, err := os.MkdirTemp("", "ofp")
	if err != nil {
		return nil, err
	}
	o = &ovs{dir: dir}
	defer func() {
		if err != nil {
			for _, d := range o.daemons {
				err = fmt.Errorf("%w\n%s", err, &d.Output)
			}
			o.stop()
		}
	}()
	if out, err := o.command("ovsdb-tool", "create", o.path("conf.db"), ovsSchema).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("ovsdb-tool: %w: %s", err, out)
	}
	for _, args := range [][]string{
		{"ovsdb-server", o.path("conf.db"), "--remote=punix:" + o.path("db.sock")},
		{"ovs-vswitchd", "unix:" + o.path("db.sock"), "--disable-system"},
	} {
		args = append(args, "--pidfile="+o.path(args[0]+".pid"), "--unixctl="+o.path(args[0]+".ctl"), "-vconsole:warn")
		cmd := o.command(args[0], args[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		d, err := testkit.StartDaemon(cmd)
		if err != nil {
			return nil, err
		}
		o.daemons = append(o.daemons, d)
	}
	deadline := time.Now().Add(patience)
	for {
		// Bridges come up only when ovs-vswitchd is there.
		out, err := o.command("ovs-vsctl", "--timeout=5", "--db=unix:"+o.path("db.sock"), "show").CombinedOutput()
		if err == nil {
			return o, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("ovs-vsctl: %w: %s", err, out)
		}
	}
}

func (o *ovs) stop() {
	for _, d := range o.daemons {
		d.Kill()
	}
	os.RemoveAll(o.dir)
}

func (o *ovs) path(name string) string { return filepath.Join(o.dir, name) }

func (o *ovs) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+o.dir, "OVS_DBDIR="+o.dir, "OVS_LOGDIR="+o.dir, "OVS_SYSCONFDIR="+o.dir)
	return cmd
}

func (o *ovs) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := o.command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

func (o *ovs) vsctl(t *testing.T, args ...string) {
	t.Helper()
	o.run(t, "ovs-vsctl", append([]string{"--timeout=20", "--db=unix:" + o.path("db.sock")}, args...)...)
}

// ofctl runs ovs-ofctl on a bridge by a connection of its own.
func (o *ovs) ofctl(t *testing.T, bridge, command string, args ...string) string {
	t.Helper()
	args = append(append([]string{"-O", "OpenFlow15"}, strings.Fields(command)...), append([]string{"unix:" + o.path(bridge+".mgmt")}, args...)...)
	return o.run(t, "ovs-ofctl", args...)
}

// flows returns what ovs-ofctl says about the flows of a bridge, without
// statistics.
func (o *ovs) flows(t *testing.T, bridge string) string {
	t.Helper()
	return o.ofctl(t, bridge, "--no-stats dump-flows")
}

// bridge makes an empty bridge that lives as long as the test.
func (o *ovs) bridge(t *testing.T, name string) {
	t.Helper()
	o.vsctl(t, "add-br", name, "--", "set", "bridge", name, "datapath_type=netdev", "fail_mode=secure")
	t.Cleanup(func() { o.vsctl(t, "del-br", name) })
}

// link is a connection to a bridge that is being served.
type link struct {
	*openflow.Conn
	served chan error
	ending sync.Once
}

// connect connects to the management socket of a bridge and serves the
// connection until the test ends.
func (o *ovs) connect(t *testing.T, bridge string, opts openflow.Options, h openflow.Handler) *link {
	t.Helper()
	nc, err := net.Dial("unix", o.path(bridge+".mgmt"))
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, nc, opts, h)
}

func serve(t *testing.T, nc net.Conn, opts openflow.Options, h openflow.Handler) *link {
	t.Helper()
	c, err := openflow.NewConn(t.Context(), nc, opts)
	if err != nil {
		t.Fatal(err)
	}
	l := &link{Conn: c, served: make(chan error, 1)}
	go func() { l.served <- c.Serve(h) }()
	t.Cleanup(func() { l.end(t) })
	return l
}

// end closes the connection and waits until no handler runs any more.
func (l *link) end(t *testing.T) {
	t.Helper()
	l.ending.Do(func() {
		l.Close()
		if err := receive(t, l.served); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
}

// receive waits for the next value of a channel.
func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	panic("not reached")
}

func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func mustContain(t *testing.T, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("no %q in:\n%s", want, text)
	}
}
