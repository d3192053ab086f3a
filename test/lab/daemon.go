// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ovnController is the daemon that needs a treatment of its own in places.
const ovnController = "ovn-controller"

// Priority is the niceness that ovs-ctl and ovn-ctl give their daemons, and that
// these have as well. Where it may not be set, nice(1) says so and goes on without.
const Priority = "-10"

// daemon is one of the daemons of OVS or OVN: it can be ended and started
// again with the same arguments. They do not daemonize, since that would take
// them out of reach of the parent-death signal.
type daemon struct {
	host *Host
	dir  string
	name string
	argv []string
	// root is the folder that the daemon has for its root from its next start on; empty
	// for that of this process.
	root string
	// schema is what the packages install for the database of an ovsdb-server, in
	// database.
	schema, database string

	ready func(context.Context) error // beside the control socket; may be nil
	proc  *Process
}

// newDaemon describes a daemon with its files in dir, all named after it.
func newDaemon(h *Host, dir, name string, argv ...string) *daemon {
	d := &daemon{host: h, dir: dir, name: name}
	d.argv = []string{argv[0], "-vconsole:err", "-vsyslog:off", "-vfile:info", "--log-file=" + d.file(".log"), "--pidfile=" + d.file(".pid")}
	d.argv = append(d.argv, argv[1:]...)
	if name != ovnController {
		d.argv = append(d.argv, "--unixctl="+d.file(".ctl"))
	}
	return d
}

func (d *daemon) file(suffix string) string { return filepath.Join(d.dir, d.name+suffix) }

// control is the path of the control socket. In OVN 23.03 ovn-controller does
// not let it be chosen.
func (d *daemon) control() string {
	if d.name == ovnController {
		return d.file(fmt.Sprintf(".%d.ctl", d.proc.Pid))
	}
	return d.file(".ctl")
}

// start starts the daemon and waits until it answers.
func (d *daemon) start(ctx context.Context) error {
	p, err := d.host.start(d.name+".out", nil, append([]string{"nice", "-n", Priority}, d.rooted(d.argv...)...)...)
	if err != nil {
		return err
	}
	d.proc = p
	if err := d.wait(ctx, d.control()); err != nil {
		return err
	}
	if d.ready == nil {
		return nil
	}
	if err := d.ready(ctx); err != nil {
		return fmt.Errorf("%s does not get ready: %w", d.name, err)
	}
	return nil
}

// rooted is the command for the daemon's root.
func (d *daemon) rooted(argv ...string) []string {
	if d.root == "" {
		return argv
	}
	return append([]string{"chroot", d.root}, argv...)
}

// wait waits until something listens on a Unix socket of the daemon. The file
// alone says nothing: a daemon that was killed leaves it behind.
func (d *daemon) wait(ctx context.Context, socket string) error {
	return Poll(ctx, func() error {
		select {
		case <-d.proc.done:
			return hopeless{fmt.Errorf("%s has ended: %s: %s", d.name, fmt.Sprint(d.proc.err), d.proc.Log())}
		default:
		}
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		return conn.Close()
	})
}

// restart ends the daemon in order and starts it again.
func (d *daemon) restart(ctx context.Context) error {
	if err := d.end(ctx); err != nil {
		return err
	}
	return d.start(ctx)
}

// end ends the daemon in order.
func (d *daemon) end(ctx context.Context) error {
	if d.name == ovnController {
		// On its own it would remove its chassis and the flows; --restart is
		// what the packages' upgrade does. An error shows below.
		_, _ = d.ask(patience, "exit", "--restart")
		if err := d.proc.Wait(ctx); ctx.Err() != nil {
			return err
		}
	}
	_ = d.proc.Stop()
	return nil
}

// restartFrom ends the daemon in order and starts the one in another root. A database is
// converted to the schema there.
func (d *daemon) restartFrom(ctx context.Context, root string) error {
	if err := d.end(ctx); err != nil {
		return err
	}
	if d.database == "" {
		d.root = root
		return d.start(ctx)
	}
	// The file has the rows of earlier transactions until it is compacted, and all of them
	// are converted.
	if _, err := d.host.Exec(ctx, d.rooted("ovsdb-tool", "compact", d.database)...); err != nil {
		return err
	}
	d.root = root
	if _, err := d.host.Exec(ctx, d.rooted("ovsdb-tool", "convert", d.database, d.schema)...); err != nil {
		return err
	}
	return d.start(ctx)
}

func (d *daemon) kill(context.Context) error {
	// It ends by a signal, which Kill reports as an error.
	_ = d.proc.Kill()
	return nil
}

// named returns the daemon of a name.
func named(t T, daemons map[string]*daemon, name string) *daemon {
	t.Helper()
	d := daemons[name]
	if d == nil {
		t.Fatalf("no daemon %q here, but %q", name, slices.Sorted(maps.Keys(daemons)))
	}
	return d
}

// act does f to the daemon of a name.
func act(t T, daemons map[string]*daemon, name string, f func(*daemon, context.Context) error) {
	t.Helper()
	d := named(t, daemons, name)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := f(d, ctx); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// Restart ends a central daemon in order and starts it again: "nb", "sb" (one
// ovsdb-server each) or "ovn-northd". It returns when the daemon answers.
func (l *Lab) Restart(name string) {
	l.t.Helper()
	act(l.t, l.daemons, name, (*daemon).restart)
}

// RestartFrom is [Lab.Restart] with the daemon of another release, as the packages have
// it in the root folder of that release, "" for the one of this process. A database is
// converted to that release's schema, as ovn-ctl(8) does it. The folder of temporary files,
// /proc, /sys and /dev are those of this process there too.
func (l *Lab) RestartFrom(root, name string) {
	l.t.Helper()
	act(l.t, l.daemons, name, func(d *daemon, ctx context.Context) error { return d.restartFrom(ctx, root) })
}

// Kill ends a central daemon by SIGKILL; [Lab.Revive] starts it again.
func (l *Lab) Kill(name string) {
	l.t.Helper()
	act(l.t, l.daemons, name, (*daemon).kill)
}

// Revive starts a central daemon that was killed.
func (l *Lab) Revive(name string) {
	l.t.Helper()
	act(l.t, l.daemons, name, (*daemon).start)
}

// Restart ends a daemon of the node in order and starts it again:
// "ovsdb-server", "ovs-vswitchd" or "ovn-controller". It returns when the daemon
// answers, an ovn-controller when it has connected; [Lab.Sync] waits for the
// flows.
func (n *Node) Restart(name string) {
	n.l.t.Helper()
	act(n.l.t, n.daemons, name, (*daemon).restart)
}

// RestartFrom is [Node.Restart] with the daemon of another release, see
// [Lab.RestartFrom].
func (n *Node) RestartFrom(root, name string) {
	n.l.t.Helper()
	act(n.l.t, n.daemons, name, func(d *daemon, ctx context.Context) error { return d.restartFrom(ctx, root) })
}

// Kill ends a daemon of the node by SIGKILL; [Node.Revive] starts it again.
func (n *Node) Kill(name string) {
	n.l.t.Helper()
	act(n.l.t, n.daemons, name, (*daemon).kill)
}

// Revive starts a daemon of the node that was killed.
func (n *Node) Revive(name string) {
	n.l.t.Helper()
	act(n.l.t, n.daemons, name, (*daemon).start)
}

// Revalidate waits until ovs-vswitchd has compared its cached flows with its tables. Until then a packet may meet a flow that
// is gone, and the counters of flows lag behind.
func (n *Node) Revalidate() {
	n.l.t.Helper()
	// A pause stops the revalidators at the start of a round, the second one after a whole round. revalidator/wait returns at the
	// end of any round, also of one that began earlier, and these come twice a second.
	for range 2 {
		n.AppCtl("ovs-vswitchd", "revalidator/pause")
		n.AppCtl("ovs-vswitchd", "revalidator/resume")
	}
}

// Daemon returns the process of a daemon of the node, to stop and continue it
// by signals.
func (n *Node) Daemon(name string) *Process {
	n.l.t.Helper()
	return named(n.l.t, n.daemons, name).proc
}

// ask runs a command of the daemon as ovs-appctl(8) does. A daemon that hangs has that long.
func (d *daemon) ask(limit time.Duration, command string, args ...string) (string, error) {
	conn, err := net.Dial("unix", d.control())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	if err := json.NewEncoder(conn).Encode(map[string]any{"id": 0, "method": command, "params": append([]string{}, args...)}); err != nil {
		return "", err
	}
	var reply struct{ Result, Error *string }
	switch err := json.NewDecoder(conn).Decode(&reply); {
	case err != nil:
		return "", err
	case reply.Error != nil:
		return "", errors.New(*reply.Error)
	case reply.Result == nil:
		return "", nil
	}
	return strings.TrimRight(*reply.Result, "\n"), nil
}

func (d *daemon) mustAsk(command string, args ...string) string {
	d.host.l.t.Helper()
	out, err := d.ask(patience, command, args...)
	if err != nil {
		d.host.l.t.Fatalf("%s: %s %q: %v", d.name, command, args, err)
	}
	return out
}

// AppCtl runs a command of ovs-appctl(8) on a central daemon: "nb", "sb" or "ovn-northd".
func (l *Lab) AppCtl(daemon, command string, args ...string) string {
	l.t.Helper()
	return named(l.t, l.daemons, daemon).mustAsk(command, args...)
}

// AppCtl runs a command of ovs-appctl(8) on a daemon of the node.
func (n *Node) AppCtl(daemon, command string, args ...string) string {
	n.l.t.Helper()
	return named(n.l.t, n.daemons, daemon).mustAsk(command, args...)
}

// AppCtlTarget returns what ovs-appctl(8) takes as the target for a daemon of the node.
func (n *Node) AppCtlTarget(daemon string) string { return named(n.l.t, n.daemons, daemon).control() }
