// SPDX-License-Identifier: Apache-2.0

package test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

const guestsKept = "coredns_ofpunt_guests_kept"

// exitController ends ovn-controller plainly: it takes its bindings and its chassis
// with it.
func (n databases) exitController(t *testing.T) {
	t.Helper()
	p := n.Node.Daemon("ovn-controller")
	n.Node.AppCtl("ovn-controller", "exit")
	if err := p.Wait(within(t, wait)); err != nil {
		t.Fatal(err)
	}
	if chassis := n.SBCTL("--bare", "--columns=name", "list", "Chassis"); chassis != "" {
		t.Fatalf("the chassis is there still: %s", chassis)
	}
}

// emptySouthbound has the database begin anew.
func (n databases) emptySouthbound(t *testing.T) {
	t.Helper()
	n.Kill("sb")
	file := filepath.Join(n.Dir, "sb.db")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Node.Exec(within(t, wait), "ovsdb-tool", "create", file, sbSchema); err != nil {
		t.Fatal(err)
	}
	n.Revive("sb")
}

// ourFlows are those that guests have.
func (n databases) ourFlows() int {
	return len(flowLines(n.Node.OFCTL("dump-flows", lab.Bridge, "cookie=0x70646e0000000000/0xffffff0000000000"))) - privateFlows
}

func (n databases) hasFlows(what string, want int) {
	n.Eventually(what, func() error {
		if got := n.ourFlows(); got != want {
			return fmt.Errorf("%d flows of guests, want %d", got, want)
		}
		return nil
	})
}

// Guests whose binding vanishes while their interface stands are served as before,
// for a grace.
func TestGrace(t *testing.T) {
	t.Parallel()
	n := newDatabases(t, lab.Options{})
	up := n.Upstream("www.example.org. 60 IN A 192.0.2.1")
	text := strings.Replace(databasesCorefile("southbound $SB\n        fallthrough"), "    errors\n", "    errors\n    forward . "+up.Addr+"\n", 1)
	s := serve(t, n.Lab, text)
	s.reaches(0, guestsKept)
	bound := func(t *testing.T) {
		t.Helper()
		n.Node.Revive("ovn-controller")
		s.reaches(0, guestsKept)
		s.ready(200)
		n.hasFlows("both guests have flows", 2*guestFlows)
		n.comes(t, n.red, "db.internal.", "NOERROR 10.0.1.99")
		n.comes(t, n.blue, "db.internal.", "NOERROR 10.0.2.99")
	}
	in := func(f func(t *testing.T)) func(t *testing.T) {
		return func(t *testing.T) {
			s.t = t
			f(t)
		}
	}

	t.Run("ovn-controller stopped", in(func(t *testing.T) {
		n.steady(t, func() {
			n.exitController(t)
			s.reaches(2, guestsKept)
			s.ready(503)
			// The databases go on telling, and the chain goes on to others.
			follows(t, n.red, "moving.internal.", dns.TypeA, "NOERROR 10.0.1.101", func() {
				n.NBCTL("--wait=sb", "set", "DNS", n.moving, `records={"moving.internal"="10.0.1.101"}`)
			})
			answers(t, n.blue, "www.example.org.", "NOERROR 192.0.2.1")
			answers(t, n.blue, "moving.internal.", "NXDOMAIN")
		})
		bound(t)
		s.log(logGraceEnds, "bound again") // it is written after the state shows
		s.toldTimes(t, 1, logGraceBegins)
		s.toldTimes(t, 1, logGraceEnds, "bound again")
	}))

	t.Run("and an interface gone", in(func(t *testing.T) {
		n.exitController(t)
		s.reaches(2, guestsKept)
		n.Node.VSCTL("--no-wait", "remove", "Interface", n.blue.NodePort, "external_ids", "iface-id")
		s.reaches(1, guestsKept)
		n.hasFlows("one guest has flows", guestFlows)
		answers(t, n.red, "db.internal.", "NOERROR 10.0.1.99")
		n.Node.VSCTL("--no-wait", "set", "Interface", n.blue.NodePort, "external_ids:iface-id="+n.blue.Port)
		bound(t)
	}))

	t.Run("and Southbound emptied", in(func(t *testing.T) {
		n.exitController(t)
		s.reaches(2, guestsKept)
		n.Kill("ovn-northd")
		n.steady(t, func() {
			s.readsAgain(func() { n.emptySouthbound(t) })
			s.reaches(0, "coredns_ovnhosts_rows", "kind", "dns")
			s.reaches(2, guestsKept)
			for range 20 {
				answers(t, n.red, "vm1.", "NOERROR 10.0.1.11")
				answers(t, n.blue, "vm1.", "NOERROR 10.0.2.11")
			}
		})
		n.Revive("ovn-northd")
		n.NBCTL("--wait=sb", "sync")
		bound(t)
	}))

	t.Run("Southbound reset", in(func(t *testing.T) {
		// Northd and ovn-controller fill it, perhaps with other tunnel keys. In the
		// meantime nobody is told another's names.
		stop := n.load(t, 500*time.Millisecond, false)
		n.emptySouthbound(t)
		n.Eventually("ovn-controller binds both guests", func() error {
			bound := n.SBCTL("--bare", "--columns=logical_port", "find", "Port_Binding", "chassis!=[]")
			if strings.Contains(bound, n.red.Port) && strings.Contains(bound, n.blue.Port) {
				return nil
			}
			// ovn-controller 23.03 is idle after a commit that the reset has made fail.
			n.Node.AppCtl("ovn-controller", "inc-engine/recompute")
			return fmt.Errorf("bound: %q", bound)
		})
		s.ready(200)
		s.reaches(0, guestsKept)
		n.comes(t, n.red, "db.internal.", "NOERROR 10.0.1.99")
		n.comes(t, n.blue, "db.internal.", "NOERROR 10.0.2.99")
		asked, other := stop()
		t.Logf("%d queries, other answers %v", asked, other)
		for got := range other {
			if strings.Contains(got, "NOERROR") {
				t.Errorf("%s", got)
			}
		}
	}))
	s.t = t
	s.endWell()

	t.Run("over", func(t *testing.T) {
		s := serve(t, n.Lab, strings.Replace(text, "ovsdb $OVSDB", "ovsdb $OVSDB\n        grace 2s", 1))
		n.exitController(t)
		s.reaches(2, guestsKept)
		s.reaches(0, guestsKept)
		n.hasFlows("no guest has flows", 0)
		s.stays(503)
		s.log(logGraceEnds, "not bound in time")
		s.toldTimes(t, 1, logGraceEnds, "not bound in time")
		n.Node.Revalidate()
		// Nothing is punted any more. OVN's own DNS is ovn-controller, and gone too.
		before := s.metric("coredns_ofpunt_packet_ins_total")
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if r, err := exchange(ctx, n.red, resolver4, "db.internal.", dns.TypeA); err == nil {
			t.Errorf("after the grace: %v", r)
		}
		if now := s.metric("coredns_ofpunt_packet_ins_total"); now != before {
			t.Errorf("%v packet-ins after the grace", now-before)
		}
		n.Node.Revive("ovn-controller")
		s.ready(200)
		n.comes(t, n.red, "db.internal.", "NOERROR 10.0.1.99")
		s.endWell()
	})
}

// survivesRename waits until ovn-controller has tried to insert a Chassis row of another name beside
// the former one, and reports whether it runs still. Southbound refuses the row, or ovn-controller
// does: the releases that do end with a failed assertion ("controller: Prevent other chassis with
// same encap IP.", 26.03.0).
func (n databases) survivesRename() (survives bool) {
	file := filepath.Join(n.Node.Dir, "ovn-controller.log")
	n.Eventually("ovn-controller has tried to take the other name", func() error {
		select {
		case <-n.Node.Daemon("ovn-controller").Done():
			return nil
		default:
		}
		text, err := os.ReadFile(file)
		if survives = strings.Contains(string(text), "constraint violation") || strings.Count(string(text), "cannot duplicate on") > 1; survives {
			return nil
		}
		return cmp.Or(err, errors.New("not yet"))
	})
	return survives
}

// A chassis whose name is changed while ovn-controller runs: there is no Chassis row of the new name
// until somebody deletes the row of the former name, and the guests stay bound to the former row
// (ovn-controller(8), external_ids:system-id). No query is lost on the way.
func TestGraceRenamed(t *testing.T) {
	t.Parallel()
	n := newDatabases(t, lab.Options{})
	s := serve(t, n.Lab, databasesCorefile("southbound $SB"))
	former := n.SBCTL("--bare", "--columns=name", "list", "Chassis")
	bound := func() {
		s.reaches(0, guestsKept)
		s.ready(200)
	}
	survives := false
	n.steady(t, func() {
		n.Node.VSCTL("--no-wait", "set", "Open_vSwitch", ".", "external_ids:system-id=renamed")
		survives = n.survivesRename()
		s.ready(503)
		for range 20 {
			answers(t, n.red, "vm1.", "NOERROR 10.0.1.11")
			answers(t, n.blue, "vm1.", "NOERROR 10.0.2.11")
		}
		s.reaches(2, guestsKept)
		follows(t, n.red, "moving.internal.", dns.TypeA, "NOERROR 10.0.1.101", func() {
			n.NBCTL("--wait=sb", "set", "DNS", n.moving, `records={"moving.internal"="10.0.1.101"}`)
		})
		if survives {
			n.SBCTL("chassis-del", former)
			bound()
		}
	})
	if !survives {
		// ovn-controller removes all flows of the bridge when it starts, so queries are lost.
		n.SBCTL("chassis-del", former)
		n.Node.Revive("ovn-controller")
		bound()
	}
	n.comes(t, n.red, "db.internal.", "NOERROR 10.0.1.99")
	n.comes(t, n.blue, "db.internal.", "NOERROR 10.0.2.99")
	s.log(logGraceEnds, "bound again")
	s.toldTimes(t, 1, logGraceEnds, "bound again")
	s.toldTimes(t, 1, logGraceRenamed, "renamed", former)
	if got := n.SBCTL("--bare", "--columns=name", "list", "Chassis"); got != "renamed" {
		t.Errorf("the chassis is %q", got)
	}
	s.endWell()
}
