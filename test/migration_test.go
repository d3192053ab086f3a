// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// A guest that moves to another chassis is answered there, and by one process
// only.
func TestMigration(t *testing.T) {
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
			// A query that came before its flow is lost; another follows soon.
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
		if took := time.Since(bound); took > time.Second {
			t.Errorf("round %d: answered on %s only after %s", round, l.Nodes[here].Name, took)
		} else {
			t.Logf("round %d: answered on %s after %s", round, l.Nodes[here].Name, took)
		}
		before := [2]float64{answeredOn(here), answeredOn(there)}
		const n = 10
		for range n {
			if got := g.Dig("db.internal", "@fd00::254", "+time=5").String(); got != "NOERROR 10.0.0.21" {
				t.Fatalf("round %d: %s", round, got)
			}
		}
		if a, b := answeredOn(here)-before[0], answeredOn(there)-before[1]; a != n || b != 0 {
			t.Errorf("round %d: %v of %d queries answered here, %v there", round, a, n, b)
		}
		g.Remove()
		l.Eventually(fmt.Sprintf("round %d: flows of the guest that left", round), func() error {
			flows := l.Nodes[here].OFCTL("dump-flows", lab.Bridge, "table=29,cookie=0x70646e0000000000/0xffffff0000000000")
			if n := len(flowLines(flows)); n != 0 {
				return fmt.Errorf("%d are left", n)
			}
			return nil
		})
	}
}
