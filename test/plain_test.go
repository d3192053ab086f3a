// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"strings"
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
			if got := blue.Dig("db.internal", "@"+resolver4, "+time=5").String(); got != known {
				t.Errorf("the other guest, beside a limit: %s", got)
			}
			s.endWell()

			s = begin("max_concurrent 64 8")
			for _, g := range []*lab.Guest{red, blue} {
				for _, resolver := range resolvers {
					if got := g.Dig("+tcp", "db.internal", "@"+resolver).String(); got != known {
						t.Errorf("%s by TCP: %s", g.Name, got)
					}
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
			if got := blue.Dig("db.internal", "@"+resolver4, "+time=1").String(); got != known {
				t.Errorf("the other guest, beside a full one: %s", got)
			}
			if got := s.punted("refused", "port-limit"); got != 12 {
				t.Errorf("%d turned away, the other guest among them", got)
			}
			q.finish(wait).clean(t, "red")
			s.endWell()
		})
	}
}
