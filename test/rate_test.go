// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// burst sends n queries at once and returns how many puntdns answers before there
// is silence. Nobody else may answer one.
func burst(t *testing.T, g *lab.Guest, n int) (answers int) {
	t.Helper()
	conn, err := g.Dial(within(t, wait), "udp", net.JoinHostPort(resolver4, "53"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	q, err := new(dns.Msg).SetQuestion("db.internal.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if _, err := conn.Write(q); err != nil {
			t.Fatal(err)
		}
	}
	others := map[string]int{}
	for b := make([]byte, 512); ; {
		if err := conn.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
			t.Fatal(err)
		}
		k, err := conn.Read(b)
		if err != nil {
			if len(others) > 0 {
				t.Errorf("of a burst, how many answers were others than %s: %v", ofSurvivor, others)
			}
			return answers
		}
		r := new(dns.Msg)
		if err := r.Unpack(b[:k]); err != nil {
			t.Fatal(err)
		}
		if got := withTTL(r); got == ofSurvivor {
			answers++
		} else {
			others[got]++
		}
	}
}

// A guest may ask so much and no more: the switch drops what is above, whatever
// is done to its meters, and what one guest asks is none of another's.
func TestRate(t *testing.T) {
	n := newSurvivor(t)
	other := aclGuest(n.l, "red", 0, 12)
	text := n.corefile("lease 3s\n rate 1 40", "", 9153, 8181)
	s := start(t, n.l, text)
	s.ready(200)

	// 40 at once, and one more for each second that it takes.
	limited := func(t *testing.T, most int) {
		t.Helper()
		revalidate(n.l.Node)
		if got := burst(t, n.vm, 90); got < 20 || got > most {
			t.Errorf("%d of 90 queries answered, want from 20 to %d\n%s", got, most, n.l.Node.OFCTL("dump-meters", lab.Bridge))
		}
		if got := briefly(other.Dig("db.internal", "@169.254.169.254", "+time=5")); got != ofSurvivor {
			t.Errorf("the other guest: %s", got)
		}
	}
	meters := func(want int) {
		t.Helper()
		n.l.Eventually("meters", func() error {
			if m := n.l.Node.OFCTL("dump-meters", lab.Bridge); strings.Count(m, "meter=") != want {
				return fmt.Errorf("want %d meters:\n%s", want, m)
			}
			return nil
		})
	}
	limited(t, 50)
	n.l.Eventually("drops are counted", func() error {
		if v := s.metric("coredns_ofpunt_rate_drops_total", "bridge", lab.Bridge); v < 40 {
			return fmt.Errorf("%v", v)
		}
		return nil
	})

	for _, harm := range []struct {
		name string
		do   func()
	}{
		{"all meters deleted", func() { n.l.Node.OFCTL("del-meters", lab.Bridge) }},
		{"ovn-controller restarted", func() {
			n.l.Node.Restart("ovn-controller")
			n.l.Sync()
		}},
		{"ovs-vswitchd restarted", func() {
			n.l.Node.Restart("ovs-vswitchd")
			n.l.Sync()
		}},
	} {
		t.Run(harm.name, func(t *testing.T) {
			harm.do()
			meters(2)
			n.l.Eventually("answers", func() error {
				if got := briefly(other.Dig("db.internal", "@169.254.169.254", "+time=1")); got != ofSurvivor {
					return fmt.Errorf("%s", got)
				}
				return nil
			})
			limited(t, 50)
		})
	}

	reload := func(t *testing.T, properties string) {
		n.l.WriteFile("Corefile.puntdns", corefile(n.l, n.corefile(properties, "", 9153, 8181)))
		if err := s.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("another rate", func(t *testing.T) {
		reload(t, "lease 3s\n rate 1 60")
		n.l.Eventually("the meters are changed", func() error {
			if m := n.l.Node.OFCTL("dump-meters", lab.Bridge); strings.Count(m, "rate=1 burst_size=60") != 2 {
				return fmt.Errorf("%s", m)
			}
			return nil
		})
	})
	t.Run("a crash leaves none behind", func(t *testing.T) {
		if err := s.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = s.Stop()
		s = start(t, n.l, text)
		s.ready(200)
		meters(2)
		limited(t, 50)
	})
	t.Run("no rate", func(t *testing.T) {
		reload(t, "lease 3s")
		meters(0)
		revalidate(n.l.Node)
		if got := burst(t, n.vm, 90); got != 90 {
			t.Errorf("%d of 90 queries answered", got)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		reload(t, "lease 3s\n rate 10")
		meters(2)
		n.l.Node.OFCTL("add-meter", lab.Bridge, "meter=5,pktps,band=type=drop,rate=100")
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if m := n.l.Node.OFCTL("dump-meters", lab.Bridge); strings.Count(m, "meter=") != 1 || !strings.Contains(m, "meter=5 ") {
			t.Errorf("want only the one that is not ours:\n%s", m)
		}
	})
}

// Of two processes on a bridge, the one that has the flows has the meters.
func TestRateHandOver(t *testing.T) {
	n := newSurvivor(t)
	first := launch(t, n.l, n.l.Node, "first", n.corefile("lease 3s\n rate 1 40", "", 9153, 8181))
	first.ready(200)
	// meter is the only one, with its burst.
	meter := func(what string, burst int) {
		t.Helper()
		n.l.Eventually(what, func() error {
			m := n.l.Node.OFCTL("dump-meters", lab.Bridge)
			if strings.Count(m, "meter=") != 1 || !strings.Contains(m, fmt.Sprintf("burst_size=%d", burst)) {
				return fmt.Errorf("want one with burst %d:\n%s", burst, m)
			}
			return nil
		})
		if got := briefly(n.vm.Dig("db.internal", "@169.254.169.254", "+time=5")); got != ofSurvivor {
			t.Errorf("%s: %s", what, got)
		}
	}
	meter("the first's", 40)
	second := launch(t, n.l, n.l.Node, "second", n.corefile("lease 3s\n rate 1 50", "", 9154, 8182))
	second.metricsAt = "127.0.0.1:9154"
	second.log("flows are in place")
	first.log("started later has taken over")
	meter("the second's", 50)
	second.undisturbed(t)
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
	first.log("is gone, taking back")
	meter("the first's again", 40)

	third := launch(t, n.l, n.l.Node, "third", n.corefile("lease 3s\n rate 1 60", "", 9155, 8183))
	third.metricsAt = "127.0.0.1:9155"
	third.log("flows are in place")
	if err := first.Stop(); err != nil {
		t.Error(err)
	}
	meter("the third's, when the first has gone", 60)
	third.undisturbed(t)
}
