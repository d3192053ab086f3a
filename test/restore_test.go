// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// A switch that ovs-ctl(8) restarts has all of its flows again, whoever else is alive, and its
// guests reach each other. What puntdns has installed does not keep ovs-save(8) from restoring the
// flows of others.
func TestSwitchRestored(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	peer := aclGuest(n.l, "red", 0, 12)
	const peerAddr, ofPeer = "10.0.0.22:5353", "NOERROR 60 10.0.0.22"
	peer.ServeDNS(peerAddr, "peer.test. 60 IN A 10.0.0.22")
	n.l.Sync()
	const limited = "lease $LEASE\n rate 1 40"
	others := func() []string {
		return flowsOfOthers(n.l.Node.OFCTL("--no-stats", "--no-names", "dump-flows", lab.Bridge))
	}
	// An ovn-controller that connects deletes all flows and installs its own, before the restore or after
	// it. Without a flow to install it confirms a change before it has noticed the lost connection
	// (ofctrl_put in controller/ofctrl.c).
	reconnected := func() {
		t.Helper()
		acl := []string{"red", "to-lport", "1", "ip4.dst == 192.0.2.1"}
		n.l.NBCTL(slices.Concat([]string{"--wait=hv", "acl-add"}, acl, []string{"drop"})...)
		n.l.NBCTL(slices.Concat([]string{"--wait=hv", "acl-del"}, acl)...)
	}
	// restart restarts the switch, and checks what is right by the restore alone.
	restart := func(t *testing.T) {
		t.Helper()
		before := others()
		if len(before) < 100 {
			t.Fatalf("%d flows of OVN, the test shows nothing", len(before))
		}
		n.l.Node.RestartAsOVSCtl()
		n.l.Eventually("the guests' own traffic", func() error { // the switch may lose a packet as it begins
			r, _, err := n.vm.Exchange(within(t, lab.Scaled(time.Second)), new(dns.Msg).SetQuestion("peer.test.", dns.TypeA), peerAddr)
			if err == nil && withTTL(r) != ofPeer {
				err = errors.New(withTTL(r))
			}
			return err
		})
		n.l.Eventually("OVN's flows", func() error { // an ovn-controller that is there installs them anew, with what its routers have learned
			after := others()
			lost := slices.DeleteFunc(slices.Clone(before), func(f string) bool { return slices.Contains(after, f) })
			if len(lost) > 0 {
				return fmt.Errorf("%d before, %d after, without\n%s", len(before), len(after), strings.Join(lost, "\n"))
			}
			return nil
		})
	}
	answers := func(want string) {
		t.Helper()
		expectSoon(t, n.l, n.vm, want, "db.internal", "@169.254.169.254", "+noedns")
	}

	for _, mode := range []struct{ name, properties string }{{"service mode", limited}, {"hijack mode", limited + "\n address any"}} {
		t.Run(mode.name, func(t *testing.T) {
			text := n.corefile(mode.properties, "", 9153, 8181)
			s := start(t, n.l, text)
			s.ready(200)
			ours := func() int {
				return len(flowLines(n.l.Node.OFCTL("--no-stats", "dump-flows", lab.Bridge, ourCookie, "--no-names")))
			}
			// The switch is asked first: puntdns may not have heard yet that ovn-controller has deleted all flows.
			inPlace := func() {
				t.Helper()
				want := privateFlows + 2*flowsOf(mode.name)
				n.l.Eventually("flows of puntdns", func() error {
					if got := ours(); got != want {
						return fmt.Errorf("%d, want %d", got, want)
					}
					return nil
				})
				s.reaches(1, "coredns_ofpunt_ready", "bridge", lab.Bridge)
				s.reaches(float64(want), "coredns_ofpunt_flows", "bridge", lab.Bridge)
			}
			answers(ofSurvivor)
			for _, controller := range []string{"with ovn-controller", "without ovn-controller"} {
				t.Run(controller, func(t *testing.T) {
					if controller == "without ovn-controller" {
						n.l.Node.Kill("ovn-controller")
						defer func() {
							n.l.Node.Revive("ovn-controller")
							reconnected()
						}()
					}
					restart(t)
					if controller == "with ovn-controller" {
						reconnected()
					}
					answers(ofSurvivor)
					inPlace()
					n.l.Node.Revalidate()
					if got := burst(t, n.vm, 90); got < 20 || got > 50 {
						t.Errorf("%d of 90 queries answered, want from 20 to 50, by the rate", got)
					}
				})
			}
			t.Run("without puntdns", func(t *testing.T) {
				inPlace() // the ovn-controller that was started has deleted all flows
				n.l.Node.Kill("ovn-controller")
				if err := s.Kill(); err == nil {
					t.Error("it ended in order")
				}
				restart(t)
				if got := ours(); got < 2*flowsOf(mode.name) {
					t.Errorf("%d flows of a dead process are restored, the test shows nothing", got)
				}
				n.l.Node.Revive("ovn-controller")
				reconnected()
				answers(ofNative)
			})
		})
	}
}

// flowsOfOthers returns the flows in a dump that are not puntdns's. One action has two texts.
func flowsOfOthers(dump string) []string {
	return slices.DeleteFunc(flowLines(strings.ReplaceAll(dump, "dec_ttl()", "dec_ttl")), func(f string) bool {
		return strings.Contains(f, "cookie=0x70646e")
	})
}

// flowsOf returns how many flows a guest with a rate has in a mode.
func flowsOf(mode string) int {
	if mode == "hijack mode" {
		return 4 + rateFlows
	}
	return guestFlows + rateFlows
}

// Flows of an operator that stand beside puntdns on a bridge without OVN come back too.
func TestPlainSwitchRestored(t *testing.T) {
	t.Parallel()
	n := newAgentBridge(t)
	n.Node.VSCTL("clear", "Bridge", lab.Bridge, "protocols") // ovs-save restores in one bundle from OpenFlow 1.4 on
	text := strings.ReplaceAll(agentCorefile, "placement PLACEMENT", "placement table 60 102\n rate 1 40")
	s := serve(t, n.Lab, text)
	askWho(t, n.red, resolver4)
	dump := func() []string { return flowsOfOthers(n.ofctl13("--no-stats", "--no-names", "dump-flows", lab.Bridge)) }
	before := dump()
	if err := s.Kill(); err == nil { // it would add its meters before the restore
		t.Error("it ended in order")
	}
	n.Node.RestartAsOVSCtl()
	if after := dump(); len(before) < len(agentFlows) || !slices.Equal(after, before) {
		t.Errorf("flows of others before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	if got, want := len(n.ours()), plainPrivateFlows+2*(plainGuestFlows+rateFlows); got != want {
		t.Errorf("%d flows of a dead process are restored, want %d", got, want)
	}
	s = serve(t, n.Lab, text)
	askWho(t, n.red, resolver4)
	s.endWell()
}
