// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// plainCorefile is for a bridge without OVN; what hosts does not know is for an
// upstream that says nothing.
const plainCorefile = `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        placement PLACEMENT
        PROPERTIES
    }
    hosts {
        10.0.0.21 db.internal
        ttl 30
        fallthrough
    }
    forward . UPSTREAM
    prometheus ` + metricsAddr + `
    ready ` + readyAddr + ` {
        monitor continuously
    }
    errors
}
`

// What a guest asks a server of its own over IPv6 gets there, with no limit, whether puntdns
// runs, has lost its lease, or is gone and has left its flows.
func TestPlainOtherServer(t *testing.T) {
	t.Parallel()
	for _, placement := range []string{"neutron", "table 0 300"} {
		t.Run(placement, func(t *testing.T) {
			l := lab.New(t, lab.Options{Plain: true})
			l.Node.OFCTL("add-flow", lab.Bridge, "table=0,priority=1,actions=NORMAL")
			vm, server := plainGuest(l, "vm", "net-red", 11, 1), plainGuest(l, "server", "net-red", 12, 1)
			const at = "fd00:10::12"
			server.ServeDNS("["+at+"]:53", "db.internal. 60 IN A 192.0.2.9")
			knows(t, vm, resolver6)
			others := func(when string) {
				t.Helper()
				l.Node.Revalidate()
				for _, args := range [][]string{{}, {"+tcp"}, {"+tcp"}, {}} {
					expect(t, vm, "NOERROR 192.0.2.9", append(args, "db.internal", "@"+at)...)
				}
			}
			others("without puntdns")
			s := start(t, l, strings.NewReplacer("PLACEMENT", placement, "PROPERTIES", "lease $LEASE\n rate 1 8", "UPSTREAM", "127.0.0.1:9").Replace(plainCorefile))
			s.ready(200)
			others("beside puntdns")
			if got := s.metric("coredns_ofpunt_packet_ins_total"); got != 0 {
				t.Errorf("%v packets came to puntdns", got)
			}
			expect(t, vm, "NOERROR 10.0.0.21", "db.internal", "@"+resolver6)

			before := s.mendings()
			l.Node.OFCTL("del-flows", lab.Bridge, "table=201")
			// Of each of the two guests UDP, TCP and solicitations, and the way on.
			s.mended(t, before, 2*3+1, 2*3+1)
			others("after somebody has removed the flows")

			if err := s.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = s.Stop()
			others("with puntdns dead")
			l.Eventually("the lease is over", func() error {
				if f := l.Node.OFCTL("dump-flows", lab.Bridge, "table=200"); strings.Contains(f, "hard_timeout") {
					return errors.New(f)
				}
				return nil
			})
			others("without a lease")
			// The resolver address is another server's now. The limit is still in force there.
			if _, err := server.Exec(within(t, wait), "ip", "-6", "address", "add", resolver6+"/128", "dev", lab.Iface, "nodad"); err != nil {
				t.Fatal(err)
			}
			if _, err := vm.Exec(within(t, wait), "ip", "neigh", "replace", resolver6, "lladdr", server.MAC, "dev", lab.Iface); err != nil {
				t.Fatal(err)
			}
			server.ServeDNS("["+resolver6+"]:53", "db.internal. 60 IN A 192.0.2.10")
			expectSoon(t, l, vm, "NOERROR 192.0.2.10", "db.internal", "@"+resolver6)
		})
	}
}

// What a guest may take is limited without OVN as with it, and is its own; and what
// does not go into a datagram, or is asked by TCP, gets its answer.
func TestPlain(t *testing.T) {
	t.Parallel()
	for _, placement := range []string{"neutron", "table 0 300"} {
		t.Run(placement, func(t *testing.T) {
			l := lab.New(t, lab.Options{Plain: true})
			l.Node.OFCTL("add-flow", lab.Bridge, "table=0,priority=1,actions=NORMAL")
			// Of one network, so that only the port tells them apart.
			red, blue := plainGuest(l, "red-vm", "net-red", 11, 1), plainGuest(l, "blue-vm", "net-red", 12, 1)
			dead := l.Upstream()
			dead.SetHandler(dns.HandlerFunc(func(dns.ResponseWriter, *dns.Msg) {}))
			begin := func(properties string) *server {
				s := start(t, l, strings.NewReplacer("PLACEMENT", placement, "PROPERTIES", properties, "UPSTREAM", dead.Addr).Replace(plainCorefile))
				s.ready(200)
				return s
			}
			const known = "NOERROR 10.0.0.21"

			s := begin("rate 1 40")
			if got := burst(t, red, 90); got < 20 || got > 50 {
				t.Errorf("%d of 90 queries answered, want from 20 to 50\n%s", got, l.Node.OFCTL("dump-meters", lab.Bridge))
			}
			expect(t, blue, known, "db.internal", "@"+resolver4, "+time=5")
			if got := burstTo(t, blue, resolver6, 90); got < 20 || got > 50 {
				t.Errorf("%d of 90 queries over IPv6 answered, want from 20 to 50\n%s", got, l.Node.OFCTL("dump-meters", lab.Bridge))
			}
			s.endWell()

			s = begin("max_concurrent 64 8")
			for _, g := range []*lab.Guest{red, blue} {
				for _, resolver := range resolvers {
					expect(t, g, known, "+tcp", "db.internal", "@"+resolver)
				}
			}
			q := questions(t, red, resolver4)
			for i := range 20 {
				if err := q.ask(fmt.Sprintf("n%d.dead.example.", i), dns.TypeA, "SERVFAIL"); err != nil {
					t.Fatal(err)
				}
			}
			l.Eventually("the guest's limit", func() error {
				if got := s.punted("refused", "port-limit"); got != 12 {
					return fmt.Errorf("%d turned away", got)
				}
				return nil
			})
			// The places are taken for some seconds.
			expect(t, blue, known, "db.internal", "@"+resolver4, "+time=1")
			if got := s.punted("refused", "port-limit"); got != 12 {
				t.Errorf("%d turned away, the other guest among them", got)
			}
			q.finish(wait).clean(t, "red")
			s.endWell()
		})
	}
}
