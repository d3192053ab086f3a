// SPDX-License-Identifier: Apache-2.0

// Package test has the system tests: a real OVN, guests in network namespaces,
// and the puntdns binary between them.
package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/puntctl"
	"github.com/puntdns/puntdns/test/lab"
)

// wait bounds what a test waits for: far more than it takes, for a busy machine.
var wait = lab.Scaled(30 * time.Second)

// soon bounds what takes a fraction of a second on a machine with nothing else to do, and
// the shortest lease (3 s) or longer if it goes wrong. How long it takes is for make bench.
var soon = lab.Scaled(2500 * time.Millisecond)

// shortLease is the shortest that ofpunt takes, on a machine of usual speed: on a slow one it
// would expire, for the beats come too late. In a Corefile it is LEASE.
var shortLease = lab.Scaled(3 * time.Second)

// puntdns is the binary under test, with the race detector in it: a race there
// ends a test as one here does.
var puntdns string

// prebuilt is the environment variable with the absolute path of that binary, for a
// machine that has no Go. Without it the binary is built.
const prebuilt = "PUNTDNS"

func TestMain(m *testing.M) {
	if os.Getenv(asGoClient) != "" {
		goClient(os.Args[1:])
		return
	}
	// By this name it is the program, for shells.
	if filepath.Base(os.Args[0]) == "puntctl" {
		os.Exit(puntctl.Run("test", os.Args[1:], os.Stdout, os.Stderr))
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// run runs the tests and returns the exit status.
func run(m *testing.M) (int, error) {
	if puntdns = os.Getenv(prebuilt); puntdns != "" {
		if _, err := os.Stat(puntdns); err != nil || !filepath.IsAbs(puntdns) {
			return 1, fmt.Errorf("%s=%s: expected the absolute path of a puntdns", prebuilt, puntdns)
		}
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "puntdns-test-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	puntdns = filepath.Join(dir, "puntdns")
	build := exec.Command("go", "build", "-race", "-o", puntdns, "../cmd/puntdns")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return 1, fmt.Errorf("building puntdns: %w", err)
	}
	return m.Run(), nil
}

// within bounds what a test waits for.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Places in a Corefile that are the lab's.
const (
	readyAddr   = "127.0.0.1:8181"
	metricsAddr = "127.0.0.1:9153"
)

// Our flows: those of the private table, and those of each guest, for each resolver address
// UDP, TCP, and ARP or neighbour solicitations. With OVN there is what a load balancer has
// rewritten, too: two for IPv4, for older and newer releases, and one for IPv6. Without OVN
// what is matched by an IPv6 address stands in a table of its own: one flow leads there from
// each kind of packet, and one from there back for what is not ours.
const (
	privateFlows      = 3
	plainPrivateFlows = privateFlows + 1
	guestFlows        = 2*3 + 3
	plainGuestFlows   = 2*3 + 3
)

// corefile fills the endpoints of the lab and of its first node into a Corefile:
// SB, NB, MGMT and OVSDB; and LEASE.
func corefile(l *lab.Lab, text string) string { return corefileOf(l, l.Node, text) }

func corefileOf(l *lab.Lab, n *lab.Node, text string) string {
	return strings.NewReplacer(
		"$SB", l.SB, "$NB", l.NB, "$MGMT", n.OpenFlow, "$OVSDB", n.OVSDB,
		"$LEASE", fmt.Sprintf("%.fs", shortLease.Seconds()),
	).Replace(text)
}

// server is a running puntdns.
type server struct {
	*lab.Process
	t         *testing.T
	l         *lab.Lab
	node      *lab.Node
	path      string // of its Corefile
	metricsAt string // where it has its metrics
	// earlier is how much of the log is of processes of that name before this one.
	earlier int
}

// start runs puntdns with a Corefile on the first node, and does not wait.
func start(t *testing.T, l *lab.Lab, text string) *server {
	t.Helper()
	return launch(t, l, l.Node, "puntdns", text)
}

// launch is start with a node, and a name for Corefile and log.
func launch(t *testing.T, l *lab.Lab, n *lab.Node, name, text string) *server {
	t.Helper()
	return launchBinary(t, l, n, puntdns, name, text)
}

// launchBinary is launch of another binary than the one under test.
func launchBinary(t *testing.T, l *lab.Lab, n *lab.Node, binary, name, text string) *server {
	t.Helper()
	s := &server{t: t, l: l, node: n, path: l.WriteFile("Corefile."+name, corefileOf(l, n, text)), metricsAt: metricsAddr}
	if before, err := os.ReadFile(filepath.Join(n.Dir, name+".log")); err == nil {
		s.earlier = len(before)
	}
	s.Process = n.Start(name, []string{"GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=100"}, binary, "-conf", s.path)
	t.Cleanup(func() {
		// A subtest may have had the server last.
		if s.t = t; !t.Failed() {
			s.settles()
		}
	})
	return s
}

// serve starts puntdns and waits until it is ready.
func serve(t *testing.T, l *lab.Lab, text string) *server {
	t.Helper()
	s := start(t, l, text)
	s.ready(200)
	return s
}

// ready waits for an answer of the ready plugin. That listens a moment before it
// knows whom to ask, and says 200 meanwhile; the log tells when that is over.
func (s *server) ready(status int) {
	s.t.Helper()
	if status == 200 {
		s.l.Eventually("flows of "+s.Name, func() error {
			if log := s.Log()[s.earlier:]; !strings.Contains(log, "flows are in place") {
				return errors.New(log)
			}
			return nil
		})
	}
	if err := s.node.WaitHTTP(within(s.t, wait), "http://"+readyAddr+"/ready", status); err != nil {
		s.t.Fatalf("ready: %v\n%s", err, s.Log())
	}
	if status == 200 {
		// What the switch has cached of the guests' way before may serve for a moment.
		revalidated(s.node)
	}
}

// metrics returns the text of the prometheus plugin.
func (s *server) metrics() string {
	s.t.Helper()
	for try := 1; ; try++ {
		_, text, err := s.node.HTTPGet(within(s.t, wait), "http://"+s.metricsAt+"/metrics")
		switch {
		case err == nil:
			return text
		case try == 3 || !errors.Is(err, io.EOF):
			s.t.Fatal(err)
		}
		// It hangs up when that takes 5 s, as it may on a busy machine.
	}
}

// log waits until the log has a line that matches.
func (s *server) log(expr string) {
	s.t.Helper()
	if err := s.WaitLog(within(s.t, wait), expr); err != nil {
		s.t.Fatalf("waiting for %q in the log: %v\n%s", expr, err, s.Log())
	}
}
