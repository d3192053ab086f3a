// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// nextRoot is the environment variable with the root folder of a later release of OVN and
// Open vSwitch. /tmp, /proc, /sys and /dev in it are those of the test.
const nextRoot = "LAB_NEXT_ROOT"

// A node and its databases become those of a later release under load, daemon by daemon,
// puntdns is replaced, and all of it goes back. The DNS stage is in another table there,
// and the flows follow it. As for what is answered, the order is that of a fail-safe
// upgrade (OVN's documentation, OVN Upgrades): ovn-controller leaves the flows alone until
// it is of the release of ovn-northd.
func TestUpgradeToNextRelease(t *testing.T) {
	t.Parallel()
	next := os.Getenv(nextRoot)
	if next == "" {
		lab.Lack(t, "there is no later release: %s is not set, as make matrix does", nextRoot)
	}
	n := newSurvivor(t)
	l, node := n.l, n.l.Node
	node.VSCTL("set", "Open_vSwitch", ".", "external_ids:ovn-match-northd-version=true")
	s := launch(t, l, node, "first", n.corefile("", "", 9153, 8181))
	s.ready(200)
	here := node.Stage(lab.DNSStage)
	n.standsBefore(here)

	stage := here
	for i, way := range []struct{ name, root string }{{"there", next}, {"back", ""}} {
		t.Run(way.name, func(t *testing.T) {
			s.t = t
			t.Log(n.versions(way.root))

			// What is asked as the flows are moved may be answered by OVN's own DNS.
			stop := n.retrying()
			if way.root == "" {
				n.forDowngrade()
			}
			for _, name := range []string{"nb", "sb", "ovn-northd"} {
				l.RestartFrom(way.root, name)
			}
			node.RestartFrom(way.root, "ovn-controller")
			l.Sync()
			was := stage
			if stage = node.Stage(lab.DNSStage); stage == was {
				t.Errorf("the DNS stage is table %d in both releases, the test shows little", stage)
			}
			n.standsBefore(stage)
			got := stop()
			t.Logf("OVN: the DNS stage has moved from table %d to %d, %s", was, stage, got)
			// An ovn-controller that starts may clear all flows first.
			if got.repeated > askers || len(got.wrong) > 0 {
				t.Errorf("OVN: %s, %q", got, got.wrong)
			}

			// A switch that starts has no flows for a moment.
			stop = n.retrying()
			if way.root == "" {
				// The prefixes that a newer ovn-controller sets are more than older schemas allow.
				node.VSCTL("clear", "Bridge", lab.Bridge, "flow_tables")
			}
			node.RestartFrom(way.root, "ovsdb-server")
			node.RestartFrom(way.root, "ovs-vswitchd")
			l.Sync()
			n.standsBefore(stage)
			got = stop()
			t.Logf("Open vSwitch: %s", got)
			if got.repeated > askers || len(got.wrong) > 0 {
				t.Errorf("Open vSwitch: %s, %q", got, got.wrong)
			}

			// One process hands over to the next.
			load := n.load(t)
			first := s
			s = launch(t, l, node, fmt.Sprint("next", i), n.corefile("", "", 9154+i, 8182+i))
			s.metricsAt = fmt.Sprintf("127.0.0.1:%d", 9154+i)
			s.serves()
			first.yields()
			if err := first.Stop(); err != nil {
				t.Error(err)
			}
			s.undisturbed(t)
			n.standsBefore(stage)
			if asked, wrong := load(); len(wrong) > 0 {
				t.Errorf("hand-over: of %d queries: %v", asked, wrong)
			}
		})
	}
	s.t = t
	if stage != here {
		t.Errorf("the DNS stage was table %d and is %d at the end", here, stage)
	}
	s.endWell()
}

// versions are those of a root.
func (n survivor) versions(root string) string {
	var all []string
	for _, daemon := range []string{"ovn-northd", "ovs-vswitchd"} {
		argv := []string{daemon, "--version"}
		if root != "" {
			argv = append([]string{"chroot", root}, argv...)
		}
		out, err := n.l.Node.Exec(context.Background(), argv...)
		if err != nil {
			out = err.Error()
		}
		line, _, _ := strings.Cut(out, "\n")
		all = append(all, line)
	}
	return strings.Join(all, ", ")
}

// standsBefore waits until our flows are all there, and the entry flows in the table
// before that one.
func (n survivor) standsBefore(stage int) {
	n.l.Eventually("the flows are before the DNS stage", func() error {
		all := flowLines(n.l.Node.OFCTL("--no-stats", "dump-flows", lab.Bridge, ourCookie))
		entry := 0
		for _, f := range all {
			if strings.Contains(f, fmt.Sprintf("table=%d,", stage-1)) {
				entry++
			}
		}
		if entry != guestFlows || len(all) != guestFlows+privateFlows {
			return fmt.Errorf("%d entry flows in table %d, want %d, and %d flows in all, want %d:\n%s",
				entry, stage-1, guestFlows, len(all), guestFlows+privateFlows, strings.Join(all, "\n"))
		}
		return nil
	})
}

// forDowngrade takes out of Southbound what the schema of an older release does not allow,
// the types of DHCP options and the number of stages, and which an ovn-northd writes anew.
// No ovn-controller is of the release of the one that is said to have written the rest.
func (n survivor) forDowngrade() {
	n.l.Kill("ovn-northd")
	n.l.SBCTL("set", "SB_Global", ".", "options:northd_internal_version=none")
	n.l.SBCTL("--all", "destroy", "Logical_Flow", "--", "--all", "destroy", "DHCP_Options", "--", "--all", "destroy", "DHCPv6_Options")
}

// tally is what became of queries: who has answered them, how many were asked more
// than once, and the answers that nobody should give.
type tally struct {
	puntdns, ovn, repeated int
	wrong                  []string
}

func (a tally) String() string {
	return fmt.Sprintf("%d queries answered by puntdns, %d by OVN's own DNS, %d not at the first try, %d wrong",
		a.puntdns, a.ovn, a.repeated, len(a.wrong))
}

// askers are those of retrying.
const askers = 4

// retrying asks with hardly a pause until stop is called. As resolvers do, it asks again
// after a while where there is no answer. What it asks for can be answered by OVN's own
// DNS, too.
func (n survivor) retrying() (stop func() tally) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all tally
	ask := func(resolver string) {
		began, tries, got := time.Now(), 0, "no answer"
		for ; got == "no answer" && time.Since(began) < wait; tries++ {
			one, end := context.WithTimeout(context.Background(), wait/10)
			if r, err := exchange(one, n.vm, resolver, "db.internal.", dns.TypeA); err == nil {
				got = withTTL(r)
			}
			end()
		}
		mu.Lock()
		defer mu.Unlock()
		if tries > 1 {
			all.repeated++
		}
		switch got {
		case ofSurvivor:
			all.puntdns++
		case ofNative:
			all.ovn++
		default:
			all.wrong = append(all.wrong, resolver+": "+got)
		}
	}
	for i := range askers {
		wg.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(pause) {
				ask(resolvers[i%len(resolvers)])
			}
		})
	}
	return func() tally {
		cancel()
		wg.Wait()
		return all
	}
}
