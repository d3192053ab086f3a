// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// withTTL is what briefly is for dig: status, TTL and data of an answer.
func withTTL(r *dns.Msg) string {
	s := dns.RcodeToString[r.Rcode]
	for i, rr := range r.Answer {
		if i == 0 {
			s += fmt.Sprintf(" %d", rr.Header().Ttl)
		}
		s += " " + strings.TrimPrefix(rr.String(), rr.Header().String())
	}
	return s
}

// soonAnswer asks once for db.internal and gives the answer 200 ms. It may run on
// any goroutine.
func (n *routed) soonAnswer() string {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	r, err := exchange(ctx, n.vm, resolver4, "db.internal.", dns.TypeA)
	if err != nil {
		return "no reply"
	}
	return withTTL(r)
}

// untilAnswer asks until the answer is want, and logs how long that took.
func (n *routed) untilAnswer(t *testing.T, want string) {
	t.Helper()
	began := time.Now()
	for {
		got := n.soonAnswer()
		took := time.Since(began)
		if got == want {
			t.Logf("%s after %s", want, took)
			return
		}
		if took > wait {
			t.Fatalf("%s, want %s\n%s", got, want, strings.Join(n.dumpOurs(), "\n"))
		}
	}
}

// A process that is stopped takes no query away for longer than its lease, and
// has it all back when it goes on.
func TestFailOpenStopped(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	n.peer.ServeDNS("10.0.0.12:53", serverRecords...)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := serve(t, n.Lab, pipelineCorefile("lease $LEASE\n"+mode.properties, mode.fall, mode.behind))
			n.untilAnswer(t, fromPuntdns)
			for round := range 2 {
				n.leased(t)
				if err := s.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				n.untilAnswer(t, fromOVN)
				n.Node.Revalidate()
				expect(t, n.vm, fromOVN, "+noedns", "@"+resolver4, "db.internal")
				expect(t, n.vm, fromOVN, "+noedns", "@"+resolver6, "db.internal")
				expect(t, n.vm, fromServer, "@10.0.0.12", "www.example.org")

				if err := s.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				n.untilAnswer(t, fromPuntdns)
				n.Node.Revalidate()
				expect(t, n.vm, fromPuntdns, "+noedns", "@"+resolver6, "db.internal")
				expect(t, n.vm, fromServer, "@10.0.0.12", "www.example.org")
				// Each change of state is told, and no more than that.
				s.reaches(1, "coredns_ofpunt_ready")
				s.reaches(float64(round+1), "coredns_ofpunt_lease_expiries_total")
				// The metric counts before the log has the line.
				s.l.Eventually("the line of the log", func() error {
					if n := s.told(logLeaseRestored); n <= round {
						return fmt.Errorf("it is there %d times", n)
					}
					return nil
				})
				s.toldTimes(t, round+1, logLeaseExpired)
				s.toldTimes(t, round+1, logLeaseRestored)
			}
			s.endWell()
		})
	}
}

// plug puts the port of a guest on the bridge.
func (n *routed) plug(g *lab.Guest) {
	n.t.Helper()
	n.Node.VSCTL("add-port", lab.Bridge, g.NodePort, "--", "set", "Interface", g.NodePort,
		"external_ids:iface-id="+g.Port, fmt.Sprintf(`external_ids:attached-mac="%s"`, g.MAC))
}

// able waits until the switch can serve DNS: OVN's flows of that stage stand.
func (n *routed) able() {
	n.t.Helper()
	n.Eventually("OVN's flows", func() error {
		// There may be no bridge for a moment.
		_, err := n.Node.FindStage(n.t.Context(), lab.DNSStage, 100)
		return err
	})
}

// The bridge goes and comes back with nothing on it: ovn-controller is held meanwhile, since a
// bridge that it adds before the switch has seen the old one go is the old one, with its flows.
func TestFailOpenBridge(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	s := serve(t, n.Lab, pipelineCorefile(rareBeats, "", ""))
	n.untilAnswer(t, fromPuntdns)
	ours := n.dumpOurs()
	guests := []*lab.Guest{n.vm, n.peer, n.far}
	// ovn-controller waits longer each time before it looks for its bridge.
	for round := range 3 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			installs := s.metric("coredns_ofpunt_flow_installs_total")
			n.held("ovn-controller", func() { n.Node.VSCTL("del-br", lab.Bridge) })
			n.Node.VSCTL("wait-until", "Bridge", lab.Bridge, "datapath_type="+n.Datapath)
			for _, g := range guests {
				n.plug(g)
			}
			n.able()
			n.untilAnswer(t, fromPuntdns)
			n.Node.Revalidate()
			expect(t, n.vm, fromPuntdns, "@"+resolver6, "db.internal")
			expect(t, n.far, "NOERROR 30 10.0.1.9", "@"+resolver4, "db.internal")
			n.sameFlows(ours)
			s.alive()
			s.ready(200)
			s.reaches(float64(len(ours)), "coredns_ofpunt_flows", "bridge", lab.Bridge)
			if got := s.metric("coredns_ofpunt_flow_installs_total") - installs; got < float64(len(ours)) {
				t.Errorf("%v flows were installed again, want all %d", got, len(ours))
			}
			s.toldTimes(t, round+1, logSwitchReset)
			s.toldTimes(t, round+2, logSwitchUp, "")
		})
	}
	s.endWell()
}

// A bridge that is replaced in one transaction keeps its flows and its connections, but no port.
func TestFailOpenBridgeReplaced(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	s := serve(t, n.Lab, pipelineCorefile(rareBeats, "", ""))
	n.untilAnswer(t, fromPuntdns)
	ours := n.dumpOurs()
	for range 2 {
		n.Node.VSCTL("del-br", lab.Bridge, "--", "add-br", lab.Bridge,
			"--", "set", "Bridge", lab.Bridge, "datapath_type="+n.Datapath, "fail-mode=secure")
		for _, g := range []*lab.Guest{n.vm, n.peer, n.far} {
			n.plug(g)
		}
		n.able()
		n.untilAnswer(t, fromPuntdns)
		n.sameFlows(ours)
		n.Node.Revalidate()
		expect(t, n.vm, fromPuntdns, "@"+resolver6, "db.internal")
		expect(t, n.far, "NOERROR 30 10.0.1.9", "@"+resolver4, "db.internal")
		s.alive()
		s.ready(200)
		s.reaches(float64(len(ours)), "coredns_ofpunt_flows", "bridge", lab.Bridge)
	}
	s.endWell()
}

// held runs f while a daemon of the node is stopped.
func (n *routed) held(daemon string, f func()) {
	n.t.Helper()
	d := n.Node.Daemon(daemon)
	if err := d.Signal(syscall.SIGSTOP); err != nil {
		n.t.Fatal(err)
	}
	defer func() {
		if err := d.Signal(syscall.SIGCONT); err != nil {
			n.t.Error(err)
		}
	}()
	f()
}

// sameFlows waits until our flows are those again.
func (n *routed) sameFlows(ours []string) {
	n.t.Helper()
	n.Eventually("the flows are as before", func() error {
		if got := n.dumpOurs(); !slices.Equal(got, ours) {
			return fmt.Errorf("our flows were\n%s\nand are\n%s", strings.Join(ours, "\n"), strings.Join(got, "\n"))
		}
		return nil
	})
}

// A port is taken off the bridge and put back, with another number.
func TestFailOpenPort(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	s := serve(t, n.Lab, pipelineCorefile(rareBeats, "", ""))
	n.untilAnswer(t, fromPuntdns)
	ours, match := n.dumpOurs(), n.portMatch(n.vm.Port)
	number := func() string { return n.Node.VSCTL("get", "Interface", n.vm.NodePort, "ofport") }
	for range 2 {
		before := number()
		n.Node.VSCTL("del-port", lab.Bridge, n.vm.NodePort)
		n.Eventually("the port is unbound", func() error { return n.bound(n.vm.Port, false) })
		n.comes(t, "its entry flows go", func() bool { return len(n.dumpOurs(match)) == 0 })
		expect(t, n.peer, fromPuntdns, "@"+resolver4, "db.internal")

		n.plug(n.vm)
		n.Node.VSCTL("wait-until", "Interface", n.vm.NodePort, "external_ids:ovn-installed=true")
		n.untilAnswer(t, fromPuntdns)
		if after := number(); after == before {
			t.Errorf("the port has the number %s again, the test shows little", after)
		}
		n.sameFlows(ours)
		s.reaches(float64(len(ours)), "coredns_ofpunt_flows", "bridge", lab.Bridge)
	}
	s.toldTimes(t, 1, logSwitchUp, "")
	s.endWell()
}

// Who comes after a process that was killed serves as soon as it is ready,
// whatever is left of the lease.
func TestFailOpenKilled(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	// Its lease is longer than the test.
	text := pipelineCorefile(rareBeats, "", "")
	s := serve(t, n.Lab, text)
	n.untilAnswer(t, fromPuntdns)
	cookies := n.cookies()

	ctx, cancel := context.WithCancel(context.Background())
	heard := make(chan map[string]int)
	go func() {
		answers := map[string]int{}
		for ctx.Err() == nil {
			answers[n.soonAnswer()]++
		}
		heard <- answers
	}()
	if err := s.Kill(); err == nil {
		t.Error("it ended in order")
	}
	n.Eventually("silence", func() error {
		if n.soonAnswer() != "no reply" {
			return errors.New("somebody answers")
		}
		return nil
	})
	s = serve(t, n.Lab, text)
	n.untilAnswer(t, fromPuntdns)
	if now := n.cookies(); len(now) != 1 || slices.Equal(now, cookies) {
		t.Errorf("cookies %q after %q, want a new one alone", now, cookies)
	}
	cancel()
	answers := <-heard
	t.Logf("answers: %v", answers)
	for _, a := range slices.Sorted(maps.Keys(answers)) {
		if a != fromPuntdns && a != "no reply" {
			t.Errorf("%d times %s: the old lease had ended", answers[a], a)
		}
	}
	s.endWell()
}

// A process whose chains are all stuck loses the punt, though it is alive, and gets it
// back: here nobody reads its log, and *log* waits for that.
func TestFailOpenStuck(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	pipe := filepath.Join(n.l.Dir, "log.pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	// Open for both, so that neither this nor the process waits for the other's open.
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	text := n.corefile("lease $LEASE\n max_concurrent 16 8", "", 9153, 8181)
	text = strings.Replace(text, "    ovnhosts {", "    log\n    ovnhosts {", 1)
	path := n.l.WriteFile("Corefile.stuck", corefile(n.l, text))
	p := n.l.Node.Start("stuck", nil, "sh", "-c", `exec "$0" -conf "$1" >"$2" 2>&1`, puntdns, path, pipe)
	answer := func() string { return isTold(n.vm, resolver4, "db.internal.") }
	expect := func(what, want string) {
		t.Helper()
		n.l.Eventually(what, func() error {
			if got := answer(); got != want {
				return errors.New(got)
			}
			return nil
		})
	}
	// The log is read as long as nobody else has the lock.
	var reading sync.Mutex
	var ended atomic.Bool
	defer ended.Store(true)
	go func() {
		for buf := make([]byte, 4096); !ended.Load(); {
			reading.Lock()
			_ = reader.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			_, _ = reader.Read(buf)
			reading.Unlock()
		}
	}()
	expect("served", ofSurvivor)
	reading.Lock()
	// A line a query: the pipe is full in the end.
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				answer()
			}
		})
	}
	expect("left to OVN's own DNS", ofNative)
	stop()
	wg.Wait()
	reading.Unlock()
	expect("served again", ofSurvivor)
	if err := p.Stop(); err != nil {
		t.Errorf("at the end: %v", err)
	}
}
