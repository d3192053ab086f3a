// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/test/lab"
)

// verdict explains a query until the summary has parts in their order, with an exit status. The switch
// of the node is traced. It returns the whole of what is told.
func verdict(t *testing.T, l *lab.Lab, socket string, status int, want []string, args ...string) (e api.Explanation) {
	t.Helper()
	o := &operator{t, l, socket}
	args = append([]string{"explain", "--vswitchd", l.Node.AppCtlTarget("ovs-vswitchd")}, args...)
	said := ""
	l.Eventually("a verdict", func() error {
		out, errs, got := o.run(append(args, "--summary")...)
		said = out
		rest := out
		for _, w := range want {
			_, after, ok := strings.Cut(rest, w)
			if !ok {
				return fmt.Errorf("exit status %d, want %q:\n%s%s", got, w, out, errs)
			}
			rest = after
		}
		return errorUnless(got == status, "exit status %d, want %d:\n%s%s", got, status, out, errs)
	})
	o.ask(&e, args...)
	out, _, _ := o.run(args...)
	t.Logf("puntctl %s\n%s%s", strings.Join(args, " "), said, out)
	return e
}

// In hijack mode the chain is that of any address, and what nobody answers goes on; over TCP nothing
// comes here.
func TestExplainHijack(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	socket := filepath.Join(n.Dir, "control.sock")
	s := serve(t, n.Lab, pipelineCorefile("address any\n control unix:"+socket, "fallthrough", "private\n    passthrough"))
	e := verdict(t, n.Lab, socket, 0, []string{"port red-vm1 asks 8.8.8.8:53 for db.internal. A: NOERROR 10.0.1.101\n"}, "red-vm1", "db.internal", "--server", public4)
	if e.Trace == nil || !e.Trace.Punted {
		t.Errorf("%+v", e.Trace)
	}
	// Nothing stands between ovnhosts and the plugins that are left out.
	if last := e.Steps[len(e.Steps)-1]; last.Plugin != "ovnhosts" || last.Verdict != api.VerdictAnswers || len(last.Notes) == 0 {
		t.Errorf("%+v", e.Steps)
	}
	e = verdict(t, n.Lab, socket, 0, []string{"puntdns lets it pass on to 8.8.8.8:53, whose answer the guest gets (chain)\n"}, "red-vm1", "www.example.org", "--server", public4)
	if last := e.Steps[len(e.Steps)-1]; last.Verdict != api.VerdictResumes || e.Result != "resumed" {
		t.Errorf("%+v", e.Steps)
	}
	// A server of the guest's network may have a private name.
	e = verdict(t, n.Lab, socket, 0, []string{"puntdns lets it pass on to 8.8.8.8:53, whose answer the guest gets (chain)\n"}, "red-vm1", "nas.lan", "--server", public4)
	if last := e.Steps[len(e.Steps)-1]; last.Plugin != "private" || last.Verdict != api.VerdictResumes || len(e.Findings) > 0 {
		t.Errorf("%+v, %+v", e.Steps, e.Findings)
	}
	e = verdict(t, n.Lab, socket, 0, []string{"puntdns is not asked, as in hijack mode (address any) the switch punts UDP only, so the query goes on to 8.8.8.8:53\n"},
		"red-vm1", "db.internal", "--server", public4, "--tcp")
	if len(e.Steps) > 0 || e.Trace == nil || e.Trace.Punted {
		t.Errorf("%+v, %+v", e.Steps, e.Trace)
	}
	o := &operator{t, n.Lab, socket}
	if _, errs, status := o.run("explain", "red-vm1", "db.internal"); status != 2 || !strings.Contains(errs, "may ask any: expected --server ADDR") {
		t.Errorf("exit status %d, %s", status, errs)
	}
	s.endWell()
}

// Without OVN there are no logical ports: a guest is an interface of the bridge.
func TestExplainPlain(t *testing.T) {
	t.Parallel()
	for _, placement := range []string{"neutron", "table 0 300"} {
		t.Run(placement, func(t *testing.T) {
			l := lab.New(t, lab.Options{Plain: true})
			l.Node.OFCTL("add-flow", lab.Bridge, "table=0,priority=1,actions=NORMAL")
			plainGuest(l, "vm", "net-red", 11, 1)
			socket := filepath.Join(l.Dir, "control.sock")
			s := start(t, l, replaceAll(plainCorefile, "PLACEMENT", placement, "PROPERTIES", "control unix:"+socket, "UPSTREAM", "127.0.0.1:9"))
			s.ready(200)
			for _, server := range resolvers {
				for _, protocol := range []string{"--tcp=false", "--tcp"} {
					e := verdict(t, l, socket, 0, []string{" for db.internal. A: NOERROR 10.0.0.21\n"}, "vm", "db.internal", "--server", server, protocol)
					if e.Trace == nil || !e.Trace.Punted || !e.Question.Assumed || len(e.Flows) < 3 {
						t.Errorf("%s %s: %+v, %+v, flows %d", server, protocol, e.Trace, e.Question, len(e.Flows))
					}
				}
			}
			verdict(t, l, socket, 1, []string{": SERVFAIL\n", "not well: upstream 127.0.0.1:9 does not answer: "}, "vm", "www.example.org")
			// Somebody's flow before ours drops what the guest asks.
			l.Node.OFCTL("add-flow", lab.Bridge, "table=0,priority=1000,udp,tp_dst=53,actions=drop")
			verdict(t, l, socket, 1, []string{"the query does not get to puntdns", "a flow of another program on the bridge drops it, in table 0"}, "vm", "db.internal")
		})
	}
}

// A container is a port of its own, behind the port of a VM.
func TestExplainContainer(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	n.NBCTL("lsp-add", "blue", "blue-ctr", "red-vm1", "42",
		"--", "lsp-set-addresses", "blue-ctr", "02:00:00:00:01:77 10.0.1.77 fd00:1::77", "--", "lsp-set-port-security", "blue-ctr", "02:00:00:00:01:77 10.0.1.77 fd00:1::77")
	n.Sync()
	socket := filepath.Join(n.Dir, "control.sock")
	s := serve(t, n.Lab, pipelineCorefile("control unix:"+socket, "", ""))
	for _, server := range resolvers {
		e := verdict(t, n.Lab, socket, 0, []string{" for db.internal. A: NOERROR 10.0.1.201\n"}, "blue-ctr", "db.internal", "--server", server)
		if e.Trace == nil || !e.Trace.Punted || e.Guest.VLAN != 42 || e.Guest.Interface != "red-vm1" || e.Guest.Switch != "blue" {
			t.Errorf("%+v, %+v", e.Trace, e.Guest)
		}
	}
	verdict(t, n.Lab, socket, 0, []string{" for db.internal. A: NOERROR 10.0.1.101\n"}, "red-vm1", "db.internal") // the VM itself
	s.endWell()
}

// An external port is behind the localnet port of its switch.
func TestExplainExternal(t *testing.T) {
	t.Parallel()
	for _, tag := range []int{0, 101} {
		t.Run(fmt.Sprint("tag ", tag), func(t *testing.T) {
			t.Parallel()
			n := newExternal(t, tag)
			n.host(1, "10.0.1.31/24")
			socket := filepath.Join(n.Dir, "control.sock")
			s := serve(t, n.Lab, pipelineCorefile("control unix:"+socket, "domain cloud.internal", ""))
			e := verdict(t, n.Lab, socket, 0, []string{"port red-host1 asks 169.254.169.254:53 for db.internal. A: NOERROR 10.0.1.50\n"}, "red-host1", "db.internal")
			if e.Trace == nil || !e.Trace.Punted || e.Guest.VLAN != uint16(tag) {
				t.Errorf("%+v, %+v", e.Trace, e.Guest)
			}
			if !slices.ContainsFunc(e.Flows, func(f api.GuestFlow) bool { return f.For == "query" }) {
				t.Errorf("no flow of the guest: %+v", e.Flows)
			}
			s.endWell()
		})
	}
}
