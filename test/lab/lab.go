// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Options of a lab; the zero value is one node with OVN.
type Options struct {
	// Nodes is the number of chassis, at least 1. They are joined by Geneve.
	Nodes int
	// Plain leaves out ovn-northd and ovn-controller: br-int then is an ordinary
	// learning switch, as an agent or a test wants it. The databases are there.
	Plain bool
	// TCP opens the databases on TCP too, see Lab.NBTCP.
	TCP bool
	// Members makes the Southbound database a cluster of so many servers, see
	// Lab.Members, instead of the one called "sb".
	Members int
	// Datapath is the datapath_type of the bridges, Userspace or Kernel. The default is
	// what DatapathEnv names in the environment, else Userspace.
	Datapath string
}

// Lab is a running OVN.
type Lab struct {
	Dir   string // folder of everything, removed by Close
	Node  *Node  // the first of Nodes; the databases and ovn-northd run beside it
	Nodes []*Node

	// Datapath is the datapath_type of the bridges.
	Datapath string
	// Endpoints of the databases, as ovn-nbctl --db and a Corefile take them.
	NB, SB string
	// The same on TCP, from inside the first node, with Options.TCP.
	NBTCP, SBTCP string
	// Members are the servers of the Southbound database, with Options.Members;
	// SB names them all then, parted by commas.
	Members []*Member

	t       T
	opts    Options
	guard   *guard
	daemons map[string]*daemon

	closing sync.Once
	closed  atomic.Bool // Close has begun
	// mu guards what follows, so that subtests may run in parallel.
	mu        sync.Mutex
	procs     []running
	servers   []*DNSServer
	guests    map[string]*Guest
	outside   []*Host // hosts that are no guests
	upstreams int
}

// running is a process and where it runs.
type running struct {
	host *Host
	proc *Process
}

// New starts a lab and returns when each ovn-controller has connected. The lab
// is closed by t.Cleanup; if the test has failed by then, the ends of all logs
// go to the test's log.
func New(t T, o Options) *Lab {
	t.Helper()
	Need(t)
	datapath, err := o.datapath()
	if err == nil {
		_, err = slowness()
	}
	if err != nil {
		t.Fatalf("lab: %v", err)
	}
	dir, err := os.MkdirTemp("", "puntdns-lab-")
	if err != nil {
		t.Fatalf("lab: %v", err)
	}
	l := &Lab{
		Dir:      dir,
		Datapath: datapath,
		NB:       "unix:" + filepath.Join(dir, "nb.sock"),
		SB:       "unix:" + filepath.Join(dir, "sb.sock"),
		t:        t,
		opts:     o,
		daemons:  make(map[string]*daemon),
		guests:   make(map[string]*Guest),
	}
	if o.Members > 0 {
		l.SB = l.memberEndpoints()
	}
	t.Cleanup(func() {
		if t.Failed() {
			l.dumpLogs()
		}
		l.Close()
	})
	if err := l.start(); err != nil {
		t.Fatalf("lab: %v", err)
	}
	return l
}

func (l *Lab) start() error {
	var err error
	if l.guard, err = startGuard(l.Dir); err != nil {
		return err
	}
	for i := range max(l.opts.Nodes, 1) {
		n, err := l.newNode(i + 1)
		if err != nil {
			return err
		}
		l.Nodes = append(l.Nodes, n)
	}
	l.Node = l.Nodes[0]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := l.startCentral(ctx); err != nil {
		return err
	}
	for _, n := range l.Nodes {
		if err := n.startSwitch(ctx); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
	}
	if l.opts.Plain {
		return nil
	}
	for _, n := range l.Nodes {
		if err := n.daemons[ovnController].start(ctx); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
	}
	return nil
}

// Close ends the lab: what was started last first, then whatever the processes
// left behind, then the folder. It waits for all of it. The test's cleanup
// calls it; a second call does nothing.
func (l *Lab) Close() {
	l.t.Helper()
	l.closing.Do(func() {
		if err := l.close(); err != nil {
			l.t.Logf("lab: close: %v", err)
		}
	})
}

func (l *Lab) close() error {
	l.closed.Store(true)
	l.mu.Lock()
	procs, servers, guests, outside := l.procs, l.servers, l.guests, l.outside
	l.procs, l.servers, l.guests, l.outside = nil, nil, nil, nil
	l.mu.Unlock()
	for _, s := range servers {
		s.shutdown()
	}
	for i := len(procs) - 1; i >= 0; i-- {
		// How a process ends on SIGTERM is its own business.
		_ = procs[i].proc.Stop()
	}
	var errs []error
	if l.guard != nil {
		errs = append(errs, l.guard.close())
	} else {
		errs = append(errs, os.RemoveAll(l.Dir))
	}
	for _, g := range guests {
		errs = append(errs, g.ns.close())
	}
	for _, h := range outside {
		errs = append(errs, h.ns.close())
	}
	for _, n := range l.Nodes {
		errs = append(errs, n.ns.close())
	}
	for _, m := range l.Members {
		errs = append(errs, m.host.ns.close())
	}
	return errors.Join(errs...)
}

// errClosed is what a closed lab says to those who still use it.
var errClosed = errors.New("the lab is closed")

// track remembers a process for Close.
func (l *Lab) track(h *Host, p *Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.procs[:0]
	for _, r := range l.procs {
		select {
		case <-r.proc.done:
		default:
			kept = append(kept, r)
		}
	}
	l.procs = append(kept, running{h, p})
}

// WriteFile puts a file into the lab's folder and returns its path.
func (l *Lab) WriteFile(name, content string) string {
	l.t.Helper()
	path := filepath.Join(l.Dir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		l.t.Fatalf("lab: %v", err)
	}
	return path
}

// WriteProgram writes a file that can be run. Without the lock a process that another goroutine starts meanwhile has the file open
// for writing, and the kernel refuses to run it (ETXTBSY).
func WriteProgram(path, content string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte(content), 0o755)
}

// Eventually waits until f returns nil; it ends the test if that takes more
// than a minute.
func (l *Lab) Eventually(what string, f func() error) {
	l.t.Helper()
	if err := Poll(context.Background(), f); err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
}

// dumpLogs logs the ends of all logs, the program under test before the daemons of OVN and Open vSwitch: a report
// may be cut.
func (l *Lab) dumpLogs() {
	var files []string
	for _, pattern := range []string{"*.log", "*/*.log"} {
		some, err := filepath.Glob(filepath.Join(l.Dir, pattern))
		if err != nil {
			l.t.Logf("lab: %v", err)
		}
		files = append(files, some...)
	}
	isDaemon := func(file string) bool {
		name := filepath.Base(file)
		return name == "nb.log" || name == "sb.log" || strings.HasPrefix(name, "ov")
	}
	slices.SortStableFunc(files, func(a, b string) int {
		switch {
		case isDaemon(a) == isDaemon(b):
			return 0
		case isDaemon(a):
			return 1
		}
		return -1
	})
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			l.t.Logf("lab: %v", err)
		}
		if len(b) > 0 {
			l.t.Logf("end of %s:\n%s", file, tail(b, 30))
		}
	}
}
