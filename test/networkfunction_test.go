// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
	"github.com/puntdns/puntdns/test/pages"
)

// newFunction adds the two ports of a network function to a switch, named SWITCH-fn1 and SWITCH-fn2. What
// comes to one of them goes out by the other.
func newFunction(t *testing.T, l *lab.Lab, sw string) {
	t.Helper()
	names := [2]string{sw + "-fn1", sw + "-fn2"}
	var ends [2]*lab.Raw
	for i, name := range names {
		g := l.Node.AddGuest(lab.Guest{
			Name: name, Switch: sw, MAC: fmt.Sprintf("02:00:00:00:09:%02d", i+1),
			Settings: []string{"options:is-nf=true", "options:nf-linked-port=" + names[1-i], "options:receive_multicast=false", "options:lsp_learn_mac=false"},
		})
		ends[i] = g.Raw()
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, len(ends))
	for i := range ends {
		go func() {
			for {
				frame, err := ends[i].Recv(ctx)
				if err == nil {
					err = ends[1-i].Send(frame)
				}
				if err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	t.Cleanup(func() {
		stop()
		for range ends {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the network function: %v", err)
			}
		}
		for _, end := range ends {
			_ = end.Close()
		}
	})
}

// functionACL has an ACL send all IP packets of the first guest of red through a group of network functions.
func functionACL(n overlap, priority, group string) {
	n.NBCTL("acl-add", "red", "from-lport", priority, `inport == "red-vm1" && ip`, "allow-related", group)
	n.Sync()
}

// A query that an ACL sends through a network function is not punted: the log, doctor and explain say so.
// An ACL of a higher priority has the guest served.
func TestNetworkFunction(t *testing.T) {
	t.Parallel()
	lab.Need(t)
	if r := lab.Installed(t); !r.HasNetworkFunctions() {
		t.Fatalf("OVN has network functions from 26.03 on, and this is %s", r)
	}
	n := newOverlap(t)
	newFunction(t, n.Lab, "red")
	n.NBCTL("nf-add", "bridge", "1", "red-fn1", "red-fn2", "--", "nfg-add", "active", "1", "inline", "bridge")
	// The ports of this one are on another switch than those who are sent there.
	for _, port := range []string{"blue-fn1", "blue-fn2"} {
		n.NBCTL("lsp-add", "blue", port, "--", "lsp-set-options", port, "is-nf=true")
	}
	n.NBCTL("nf-add", "away", "2", "blue-fn1", "blue-fn2", "--", "nfg-add", "inactive", "2", "inline", "away")
	n.Sync()
	socket := filepath.Join(n.Dir, "control.sock")
	o := &operator{t, n.Lab, socket}
	up := n.Upstream("www.example.org. 60 IN A 192.0.2.5")
	s := serve(t, n.Lab, corefile(n.Lab, replaceAll(explainCorefile, "SOCKET", socket, "AUDIT", filepath.Join(n.Dir, "audit.json"), "UPSTREAM", up.Addr)))
	s.log(logFunctions, "red", "red-fn1", "red-fn2")

	// says waits until a command of puntctl has that exit status and says that, and returns what it says.
	says := func(status int, want string, args ...string) (said string) {
		n.Eventually(fmt.Sprintf("%q", args), func() error {
			out, errs, got := o.run(append(args, "--vswitchd", n.Node.AppCtlTarget("ovs-vswitchd"))...)
			said = out
			return errorUnless(got == status && strings.Contains(out, want) && !strings.Contains(out, "has expired"), "exit status %d, want %d and %q:\n%s%s", got, status, want, out, errs)
		})
		return said
	}
	explain := [][]string{{"explain", "--summary", "red-vm1", "www.example.org"}, {"explain", "--summary", "--tcp", "red-vm1", "www.example.org"}}
	// showsStage runs the line that is said to show the logical flow, which has to be of a stage.
	showsStage := func(stage, said string) {
		m := lflowList.FindStringSubmatch(said)
		if m == nil {
			t.Fatalf("no line to paste:\n%s", said)
		}
		if flow := n.SBCTL("lflow-list", m[1], m[2]); !strings.Contains(flow, stage) {
			t.Errorf("lflow-list shows %q", flow)
		}
	}

	functionACL(n, "1002", "active")
	const sent = `an ACL sends it through a network function, by port "red-fn1", in table `
	said := says(1, " are not punted: "+sent, "doctor")
	if !strings.Contains(said, "port blue-vm1: queries to 169.254.169.254 over UDP and TCP, to fd00::254 over UDP and TCP are punted") {
		t.Errorf("doctor says of the other tenant\n%s", said)
	}
	for _, args := range explain {
		showsStage("ls_in_network_function", says(1, "the switch does not punt the query of the guest: "+sent, args...))
	}
	// It comes back by the other port, where OVN's own DNS gets it.
	expect(t, n.red, "NOERROR 3600 10.0.1.101", "+noedns", "@"+resolver4, "db.internal")

	_, blocks := pages.Section(t, "..", "docs/ovn.md#network-functions", "sh")
	if len(blocks) == 0 {
		t.Fatal("the page has no ACLs")
	}
	for _, b := range blocks {
		shell(t, n.Lab, b.Text)
	}
	n.Sync()
	says(0, "port red-vm1: queries to 169.254.169.254 over UDP and TCP, to fd00::254 over UDP and TCP are punted", "doctor")
	for _, args := range explain {
		says(0, "NOERROR 192.0.2.5", args...)
	}
	for _, args := range [][]string{{"@" + resolver4}, {"@" + resolver4, "+tcp"}, {"@" + resolver6}, {"@" + resolver6, "+tcp"}} {
		expect(t, n.red, "NOERROR 30 10.0.1.101", append(args, "db.internal")...)
		if r := n.red.Dig(append(args, "www.example.org")...); r.Err != nil || fmt.Sprint(r.Values()) != "[192.0.2.5]" {
			t.Errorf("%q: %s\n%s", args, briefly(r), r.Out)
		}
	}

	functionACL(n, "1004", "inactive")
	for _, args := range explain {
		showsStage("ls_in_acl_eval", says(1, "an ACL sends it through a network function that is not active (row ", args...))
	}
	s.endWell()
	s.toldTimes(t, 1, `switch "red" \(`)
}
