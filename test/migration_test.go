// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// A guest that moves to another chassis is answered there, and by one process
// only.
func TestMigration(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{Nodes: 2})
	l.AddSwitch("red")
	l.NBCTL("acl-add", "red", "from-lport", "1001", "ip", "allow-related",
		"--", "acl-add", "red", "to-lport", "1001", "ip", "allow-related")
	l.AddDNS(map[string]string{"db.internal": "10.0.0.21"}, "red")
	vm := lab.Guest{
		Name: "vm", Port: "red-vm", Switch: "red", MAC: "02:00:00:00:00:11", Addrs: lab.Prefixes("10.0.0.11/24", "fd00:10::11/64"),
		Routes: []string{"169.254.169.254 dev eth0", "fd00::254 dev eth0"}, PortSecurity: true,
	}
	// The port stays when the guest that made it goes.
	l.NBCTL("lsp-add", "red", "red-vm", "--", "lsp-set-addresses", "red-vm", vm.MAC+" 10.0.0.11 fd00:10::11",
		"--", "lsp-set-port-security", "red-vm", vm.MAC+" 10.0.0.11 fd00:10::11")
	var servers []*server
	for _, n := range l.Nodes {
		s := launch(t, l, n, "puntdns-"+n.Name, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        rate off
        `+rareBeats+`
    }
    ovnhosts {
        southbound $SB
    }
    prometheus `+metricsAddr+`
    ready `+readyAddr+` {
        monitor continuously
    }
}`)
		s.ready(200)
		servers = append(servers, s)
	}

	answeredOn := func(i int) float64 {
		return servers[i].metric("coredns_ofpunt_packet_ins_total", "bridge", lab.Bridge, "result", "answered", "reason", "chain")
	}
	for round := range 4 {
		here, there := round%2, 1-round%2
		g := l.Nodes[here].AddGuest(vm)
		bound := time.Now()
		// A guest that migrates keeps its neighbours: the resolver address has one
		// hardware address on all chassis.
		if _, err := g.Exec(within(t, wait), "ip", "neigh", "replace", resolver4, "lladdr", "02:00:64:6e:73:35", "dev", "eth0"); err != nil {
			t.Fatal(err)
		}
		for {
			// A query that came before its flow is lost; another follows.
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			r, err := exchange(ctx, g, resolver4, "db.internal.", dns.TypeA)
			cancel()
			if err == nil && inShort(r) == "NOERROR 10.0.0.21" {
				break
			}
			if time.Since(bound) > wait {
				t.Fatalf("round %d: not answered on %s: %v, %v", round, l.Nodes[here].Name, r, err)
			}
		}
		t.Logf("round %d: answered on %s after %s", round, l.Nodes[here].Name, time.Since(bound))
		before := [2]float64{answeredOn(here), answeredOn(there)}
		const n = 10
		for range n {
			if got := g.Dig("db.internal", "@fd00::254", "+time=5").String(); got != "NOERROR 10.0.0.21" {
				t.Fatalf("round %d: %s", round, got)
			}
		}
		// puntdns counts an answer after it has sent it. The answer to the query above may be among the counted ones.
		l.Eventually(fmt.Sprintf("round %d: all queries counted here", round), func() error {
			if a := answeredOn(here) - before[0]; a < n {
				return fmt.Errorf("%v of %d", a, n)
			}
			return nil
		})
		if b := answeredOn(there) - before[1]; b != 0 {
			t.Errorf("round %d: %v queries answered there", round, b)
		}
		g.Remove()
		l.Eventually(fmt.Sprintf("round %d: flows of the guest that left", round), func() error {
			flows := l.Nodes[here].OFCTL("dump-flows", lab.Bridge, "cookie=0x70646e0000000000/0xffffff0000000000")
			if n := len(flowLines(flows)) - privateFlows; n > 0 {
				return fmt.Errorf("%d are left", n)
			}
			return nil
		})
	}

	for _, strategy := range []string{"", "rarp"} {
		t.Run("live "+strategy, func(t *testing.T) {
			for _, s := range servers {
				s.t = t
			}
			testLiveMigration(t, l, vm, servers, strategy)
		})
	}
}

// testLiveMigration moves a guest that asks all the while, in the steps of a
// management system: the destination's interface is there, and both chassis have the
// port, before the guest goes on at the destination (ovn-nb(5), Logical_Switch_Port
// options:requested-chassis and options:activation-strategy).
func testLiveMigration(t *testing.T, l *lab.Lab, spec lab.Guest, servers []*server, strategy string) {
	at := func(i int) *lab.Guest {
		spec.Name = fmt.Sprintf("vm-%s%d", strategy, i)
		g := l.Nodes[i].AddGuest(spec)
		// It keeps its neighbours; a query that waits for one would be sent later.
		for _, resolver := range resolvers {
			if _, err := g.Exec(within(t, wait), "ip", "neigh", "replace", resolver, "lladdr", "02:00:64:6e:73:35", "dev", "eth0"); err != nil {
				t.Fatal(err)
			}
		}
		return g
	}
	settings := []string{"set", "Logical_Switch_Port", spec.Port, "options:requested-chassis=" + l.Nodes[0].Name}
	if strategy != "" {
		settings = append(settings, "options:activation-strategy="+strategy)
	}
	l.NBCTL(settings...)
	source := at(0)
	served := func(i int) {
		t.Helper()
		// The flows of the stage before OVN's DNS, wherever that is.
		l.Eventually(fmt.Sprintf("%s has flows for the guest", l.Nodes[i].Name), func() error {
			flows := flowLines(l.Nodes[i].OFCTL("dump-flows", lab.Bridge, "cookie=0x70646e0000000000/0xffffff0000000000"))
			if len(flows) != privateFlows+guestFlows {
				return fmt.Errorf("%d flows", len(flows))
			}
			return nil
		})
		l.Nodes[i].Revalidate()
	}
	served(0)
	answeredBefore := servers[0].punted("answered", "chain") + servers[1].punted("answered", "chain")
	n := startMover(source)
	defer n.stop()
	n.some(t)

	l.NBCTL("set", "Logical_Switch_Port", spec.Port, fmt.Sprintf("options:requested-chassis=%q", l.Nodes[0].Name+","+l.Nodes[1].Name))
	destination := at(1)
	n.some(t)
	if strategy != "" {
		// OVN drops what the guest sends there, and so nothing of it is punted.
		l.Sync()
		l.Nodes[1].Revalidate()
		before := servers[1].metric("coredns_ofpunt_packet_ins_total")
		for _, resolver := range resolvers {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			if r, err := exchange(ctx, destination, resolver, "db.internal.", dns.TypeA); err == nil {
				t.Errorf("the port that waits for %s was answered: %s", strategy, inShort(r))
			}
			cancel()
		}
		if now := servers[1].metric("coredns_ofpunt_packet_ins_total"); now != before {
			t.Errorf("%v packet-ins of the port that waits for %s", now-before, strategy)
		}
		n.some(t)
		raw := destination.Raw()
		defer raw.Close()
		if err := raw.Send(rarpFrame(t, spec.MAC)); err != nil {
			t.Fatal(err)
		}
		l.Eventually("the port is activated", func() error {
			if got := l.SBCTL("--if-exists", "get", "Port_Binding", spec.Port, "options:additional-chassis-activated"); !strings.Contains(got, l.Nodes[1].Name) {
				return errors.New(got)
			}
			return nil
		})
		l.Sync()
	}
	served(1)
	n.move(destination)
	n.some(t)

	released := time.Now()
	l.NBCTL("set", "Logical_Switch_Port", spec.Port, "options:requested-chassis="+l.Nodes[1].Name)
	l.Eventually("the source's flows are gone", func() error {
		if flows := flowLines(l.Nodes[0].OFCTL("dump-flows", lab.Bridge, "cookie=0x70646e0000000000/0xffffff0000000000")); len(flows) != privateFlows {
			return fmt.Errorf("%d flows", len(flows))
		}
		return nil
	})
	l.Sync()
	settled := time.Now()
	n.some(t)
	source.Remove()
	l.Sync()
	n.some(t)
	asked, wrong := n.stop()
	lost := 0
	for _, w := range wrong {
		// As northd ends the activation before the destination has claimed the port,
		// ovn-controller blocks it once more for a moment.
		if strategy != "" && w.got == "" && w.asked.After(released) && w.asked.Before(settled) {
			lost++
			continue
		}
		t.Errorf("asked by %s %s after the release: %q, %v", w.by, w.asked.Sub(released), w.got, w.err)
	}
	t.Logf("%d queries, the switch lost %d", asked, lost)
	// One answer each: the reader of the packets that came counts each, and nothing
	// else was asked.
	answered := servers[0].punted("answered", "chain") + servers[1].punted("answered", "chain") - answeredBefore
	if answered != asked-lost {
		t.Errorf("%d answers for %d queries, of which the switch lost %d", answered, asked, lost)
	}
	destination.Remove()
	l.NBCTL("remove", "Logical_Switch_Port", spec.Port, "options", "requested-chassis", "--", "remove", "Logical_Switch_Port", spec.Port, "options", "activation-strategy")
}

// mover asks without pause, over each family, from where a guest is. Each query is
// sent once.
type mover struct {
	at     atomic.Pointer[lab.Guest]
	stop   func() (asked int, wrong []wrongAnswer)
	rounds [2]atomic.Int64
}

// wrongAnswer is any but the right one, with no text for none.
type wrongAnswer struct {
	by    string
	asked time.Time
	got   string
	err   error
}

func startMover(g *lab.Guest) *mover {
	n := &mover{}
	n.at.Store(g)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	asked, wrong := 0, []wrongAnswer(nil)
	for i, resolver := range resolvers {
		wg.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(pause) {
				g := n.at.Load()
				one, end := context.WithTimeout(context.Background(), wait/10)
				w := wrongAnswer{by: g.Name, asked: time.Now()}
				r, err := exchange(one, g, resolver, "db.internal.", dns.TypeA)
				end()
				if w.err = err; err == nil {
					w.got = withTTL(r)
				}
				mu.Lock()
				if asked++; w.got != "NOERROR 30 10.0.0.21" {
					wrong = append(wrong, w)
				}
				mu.Unlock()
				n.rounds[i].Add(1)
			}
		})
	}
	n.stop = sync.OnceValues(func() (int, []wrongAnswer) {
		cancel()
		wg.Wait()
		return asked, wrong
	})
	return n
}

// some waits until each of those who ask has asked a few more times.
func (n *mover) some(t *testing.T) {
	t.Helper()
	const few = 20
	ctx := within(t, wait)
	for i := range n.rounds {
		for until := n.rounds[i].Load() + few; n.rounds[i].Load() < until; {
			select {
			case <-ctx.Done():
				t.Fatalf("%d queries, want %d", n.rounds[i].Load(), until)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
}

// move has the guest go on at another place.
func (n *mover) move(g *lab.Guest) { n.at.Store(g) }

// rarpFrame is what a hypervisor sends for a guest that has arrived (RFC 903).
func rarpFrame(t *testing.T, addr string) []byte {
	t.Helper()
	mac, err := net.ParseMAC(addr)
	if err != nil {
		t.Fatal(err)
	}
	none := make([]byte, 4)
	return slices.Concat(net.HardwareAddr{255, 255, 255, 255, 255, 255}, mac,
		[]byte{0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3}, mac, none, mac, none)
}
