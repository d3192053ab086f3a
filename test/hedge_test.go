// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// With hedge no guest waits for a first server of forward that is silent: 2 s, as forward does by itself. puntctl watch
// and why show the server that has answered.
func TestHedge(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	first, second := n.Upstream(), n.Upstream()
	first.SetHandler(dns.HandlerFunc(func(dns.ResponseWriter, *dns.Msg) {}))
	second.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 1}, Txt: []string{"second"}}}
		_ = w.WriteMsg(m)
	}))
	w := &watched{overlap: n, t: t, socket: n.Dir + "/control.sock"}
	// Health checks do not interfere: forward asks the first one each time.
	w.server = serve(t, n.Lab, corefile(n.Lab, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        lease $LEASE
        hedge 50ms
        why
        control unix:`+w.socket+`
    }
    metadata
    ready `+readyAddr+`
    errors
    ovnhosts {
        southbound $SB
        fallthrough
    }
    forward . `+first.Addr+` `+second.Addr+` {
        policy sequential
        max_fails 0
    }
}`))
	watching := w.watchAt("/v1/watch")
	// why stores 16 queries.
	const queries, long = 12, 1500 * time.Millisecond
	var late atomic.Int64
	var all sync.WaitGroup
	for i := range queries {
		all.Go(func() {
			begun := time.Now()
			r, err := exchange(within(t, wait), n.red, resolver4, fmt.Sprintf("a%d.example.org.", i), dns.TypeTXT)
			if err != nil || len(r.Answer) != 1 || !strings.Contains(r.Answer[0].String(), "second") {
				t.Errorf("%v, %v", r, err)
			}
			if time.Since(begun) > long {
				late.Add(1)
			}
		})
	}
	all.Wait()
	if late := late.Load(); late > queries/2 {
		t.Errorf("%d of %d queries waited", late, queries)
	}
	for _, l := range watching.queries(queries) {
		if l.Upstream != second.Addr {
			t.Errorf("watch shows %q for %s, want %s", l.Upstream, l.Name, second.Addr)
		}
	}
	q := new(dns.Msg).SetQuestion("a0.example.org.why.puntdns.", dns.TypeTXT)
	q.Question[0].Qclass = dns.ClassCHAOS
	r, _, err := n.red.Exchange(within(t, wait), q, net.JoinHostPort(resolver4, "53"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"plugin=forward"`, `"upstream=` + second.Addr + `"`} {
		if !strings.Contains(fmt.Sprint(r.Answer), want) {
			t.Errorf("%s is not in %v", want, r.Answer)
		}
	}
	w.server.endWell()
}
