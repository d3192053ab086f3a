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
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/puntctl"
	"github.com/puntdns/puntdns/test/lab"
)

// wait bounds what a test waits for: far more than it takes, for a busy machine.
var wait = lab.Scaled(30 * time.Second)

// shortLease is the shortest that ofpunt takes, on a machine of usual speed: on a slow one it
// would expire, for the beats come too late. In a Corefile it is LEASE.
var shortLease = lab.Scaled(3 * time.Second)

// longLease is for tests that fail if a lease expires: a busy machine may halt all processes for longer
// than shortLease. In a Corefile it is LONGLEASE.
var longLease = lab.Scaled(15 * time.Second)

// rareBeats is a property of ofpunt: beats are further apart than any test waits. So what puntdns does
// within a test's wait is the effect of an event, and not found at a beat.
const rareBeats = "lease 3600s"

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

// Our flows: those that all guests share, and those of each guest, for each resolver address
// UDP, TCP, and ARP or neighbour solicitations. With OVN there is what a load balancer has
// rewritten, too: two for IPv4, for older and newer releases, and one for IPv6. Without OVN
// what is matched by an IPv6 address stands in a table of its own: one flow leads there from
// each kind of packet, and one from there back for what is not ours. A guest with a rate has a
// punt of its own beside these.
const (
	privateFlows      = 4
	plainPrivateFlows = privateFlows + 1
	guestFlows        = 2*3 + 3
	plainGuestFlows   = 2*3 + 3
	rateFlows         = 1
)

// isPrivate reports whether an OpenFlow table has neither entry flows nor flows of others.
func isPrivate(table string) bool { return table == "200" || table == "202" }

// corefile fills the endpoints of the lab and of its first node into a Corefile: SB, NB, MGMT, OVSDB and
// CONTROL; LEASE and LONGLEASE. A Corefile with *ready* and without metrics gets metrics, since tests wait on them.
func corefile(l *lab.Lab, text string) string { return corefileOf(l, l.Node, text) }

func corefileOf(l *lab.Lab, n *lab.Node, text string) string {
	text = strings.NewReplacer(
		"$SB", l.SB, "$NB", l.NB, "$MGMT", n.OpenFlow, "$OVSDB", n.OVSDB,
		"$CONTROL", "unix:"+filepath.Join(n.Dir, "control.sock"),
		"$LEASE", fmt.Sprintf("%.fs", shortLease.Seconds()),
		"$LONGLEASE", fmt.Sprintf("%.fs", longLease.Seconds()),
	).Replace(text)
	if at := readyLine.FindStringIndex(text); at != nil && !prometheusLine.MatchString(text) {
		text = text[:at[0]] + "    prometheus " + metricsAddr + "\n" + text[at[0]:]
	}
	return text
}

var readyLine = regexp.MustCompile(`(?m)^\s*ready `)

// server is a running puntdns.
type server struct {
	*lab.Process
	t         *testing.T
	l         *lab.Lab
	node      *lab.Node
	path      string // of its Corefile
	metricsAt string // where it has its metrics
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
	s.Process = n.Start(name, []string{"GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=0"}, binary, "-conf", s.path)
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

// ready waits for an answer of the plugin ready. The plugin listens a moment before it knows whom to ask,
// and says 200 meanwhile; the metric does not.
func (s *server) ready(status int) {
	s.t.Helper()
	if status == 200 {
		s.serves()
	}
	if err := s.node.WaitHTTP(within(s.t, wait), "http://"+readyAddr+"/ready", status); err != nil {
		s.t.Fatalf("ready: %v\n%s", err, s.Log())
	}
	if status == 200 {
		// What the switch has cached of the guests' way before may serve for a moment.
		s.node.Revalidate()
	}
}

// metrics returns the text of the prometheus plugin.
func (s *server) metrics() string {
	s.t.Helper()
	text, err := s.metricsOf(s.metricsAt)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// metricsOf returns the text of the prometheus plugin at an address.
func (s *server) metricsOf(address string) (text string, err error) {
	s.t.Helper()
	for range 3 {
		_, text, err = s.node.HTTPGet(within(s.t, wait), "http://"+address+"/metrics")
		if !errors.Is(err, io.EOF) {
			break
		}
		// The plugin hangs up after 5 s, which a busy machine may need.
	}
	return text, err
}

// serves waits until the metrics say that all bridges are served.
func (s *server) serves() {
	s.t.Helper()
	waitServing(s.t, s.l, s.node.Host, s.Process, s.metricsAt)
}

var readyMetric = regexp.MustCompile(`(?m)^coredns_ofpunt_ready\{.*\} (\d)$`)

// waitServing waits until the metrics of a puntdns on a host say that all bridges are served.
func waitServing(t *testing.T, l *lab.Lab, h *lab.Host, p *lab.Process, metricsAt string) {
	t.Helper()
	ctx := within(t, wait)
	l.Eventually("guests are served by "+p.Name, func() error {
		select {
		case <-p.Done():
			t.Fatalf("%s has ended\n%s", p.Name, p.Log())
		default:
		}
		_, text, err := h.HTTPGet(ctx, "http://"+metricsAt+"/metrics")
		if err != nil {
			return fmt.Errorf("%w\n%s", err, p.Log())
		}
		bridges := readyMetric.FindAllStringSubmatch(text, -1)
		if len(bridges) == 0 || slices.ContainsFunc(bridges, func(b []string) bool { return b[1] != "1" }) {
			return fmt.Errorf("%q\n%s", bridges, p.Log())
		}
		return nil
	})
}
