// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// vip is an address of a load balancer of the switch red.
type vip struct {
	addr, backend string
	// at is where the guest asks.
	at string
}

// vips have a DNS server behind them: on another switch with the same port, and on the
// same switch with another.
var vips = []vip{
	{"10.96.0.10:53", "10.0.1.21:53", "10.96.0.10"},
	{"10.96.0.11:53", "10.0.0.12:5353", "10.96.0.11"},
	{"[fd00:96::10]:53", "[fd00:11::21]:53", "fd00:96::10"},
	{"[fd00:96::11]:53", "[fd00:10::12]:5353", "fd00:96::11"},
}

// newBalanced is newRouted with load balancers, and a name that needs nearly all that a
// DNS message has room for.
func newBalanced(t *testing.T) (n *routed, servers []*lab.DNSServer) {
	n = newRouted(t)
	backends := vips
	// One address without a port, and one whose backend is a resolver address.
	backends = append(backends[:len(backends):len(backends)],
		vip{"10.96.0.12", "10.0.1.21", ""}, vip{"10.96.0.13:53", resolver4 + ":53", ""})
	for _, v := range backends {
		lb := "lb-" + v.addr
		if !strings.Contains(v.addr, ":") {
			n.NBCTL("lb-add", lb, v.addr, v.backend)
			n.NBCTL("ls-lb-add", "red", lb)
			continue
		}
		for _, protocol := range []string{"udp", "tcp"} {
			n.NBCTL("lb-add", lb+protocol, v.addr, v.backend, protocol)
			n.NBCTL("ls-lb-add", "red", lb+protocol)
		}
	}
	var many []string
	for i := range manyAddresses {
		many = append(many, fmt.Sprintf("10.9.%d.%d", i/250, i%250+1))
	}
	n.AddDNS(map[string]string{"many.internal": strings.Join(many, " ")}, "red")
	n.Sync()
	for _, v := range vips {
		g := n.far
		if strings.HasSuffix(v.backend, ":5353") {
			g = n.peer
		}
		servers = append(servers, g.ServeDNS(v.backend, serverRecords...))
	}
	return n, servers
}

// inARow sends queries of a name from one port, the first two at once as a resolver asks
// for A and AAAA, and returns the answers in short by their types.
func inARow(t *testing.T, g *lab.Guest, to, name string) (got map[uint16]string) {
	t.Helper()
	nc, err := g.Dial(within(t, wait), "udp", net.JoinHostPort(to, "53"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(wait))
	c := &dns.Conn{Conn: nc}
	got = map[uint16]string{}
	for _, together := range [][]uint16{{dns.TypeA, dns.TypeAAAA}, {dns.TypeTXT}} {
		for _, qtype := range together {
			if err := c.WriteMsg(new(dns.Msg).SetQuestion(name, qtype)); err != nil {
				t.Fatal(err)
			}
		}
		for range together {
			r, err := c.ReadMsg() // from where it was sent to, or the kernel drops it
			if err != nil {
				t.Fatalf("%s asks %s for %s: %v, after %v", g.Name, to, name, err, got)
			}
			got[r.Question[0].Qtype] = inShort(r)
		}
	}
	return got
}

// A load balancer rewrites the destination before the query comes to the punt. The guest
// is answered by whom it has asked, and what nobody answers reaches the backend.
func TestLoadBalancerHijack(t *testing.T) {
	t.Parallel()
	n, servers := newBalanced(t)
	s := serve(t, n.Lab, pipelineCorefile(modes[1].properties, modes[1].fall, modes[1].behind))

	t.Run("local name", func(t *testing.T) {
		n.punts(t, s, len(vips)+2, func() {
			for _, v := range vips {
				expect(t, n.vm, fromPuntdns, "@"+v.at, "db.internal")
			}
			expect(t, n.vm, fromPuntdns, "@10.96.0.12", "db.internal")
			expect(t, n.vm, fromPuntdns, "@10.96.0.13", "db.internal")
		})
		n.punts(t, s, 3*len(vips), func() {
			for _, v := range vips {
				got := inARow(t, n.vm, v.at, "db.internal.")
				if got[dns.TypeA] != "NOERROR 10.0.0.9" || got[dns.TypeAAAA] != "NOERROR fd00:10::9" || got[dns.TypeTXT] != "NOERROR" {
					t.Errorf("%s: %v", v.at, got)
				}
			}
		})
		for _, srv := range servers {
			if got := srv.Asked(); len(got) != 0 {
				t.Errorf("%s was asked %v", srv.Addr, got)
			}
		}
	})
	t.Run("another name", func(t *testing.T) {
		for i, v := range vips {
			before := servers[i].Count("www.example.org")
			n.punts(t, s, 4, func() {
				expect(t, n.vm, fromServer, "@"+v.at, "www.example.org")
				if got := inARow(t, n.vm, v.at, "www.example.org."); got[dns.TypeA] != "NOERROR 192.0.2.77" || got[dns.TypeTXT] != "NOERROR" {
					t.Errorf("%s: %v", v.at, got)
				}
			})
			if got := servers[i].Count("www.example.org") - before; got != 4 {
				t.Errorf("the backend of %s was asked %d times, want 4", v.at, got)
			}
		}
	})
	t.Run("TCP is left alone", func(t *testing.T) {
		n.punts(t, s, 0, func() {
			for _, v := range vips {
				expect(t, n.vm, "NOERROR 77 192.0.2.77", "+tcp", "@"+v.at, "db.internal")
			}
		})
	})
}

// The address of a load balancer may be a resolver address: its backends are not asked
// then.
func TestLoadBalancerService(t *testing.T) {
	t.Parallel()
	n, servers := newBalanced(t)
	var all []string
	for _, v := range vips {
		all = append(all, v.at)
	}
	s := serve(t, n.Lab, pipelineCorefile("address "+strings.Join(append(all, resolver4), " "), "", ""))
	all = append(all, "10.96.0.13")

	n.punts(t, s, 4*len(all), func() {
		for _, at := range all {
			expect(t, n.vm, fromPuntdns, "@"+at, "db.internal")
			got := inARow(t, n.vm, at, "db.internal.")
			if got[dns.TypeA] != "NOERROR 10.0.0.9" || got[dns.TypeAAAA] != "NOERROR fd00:10::9" || got[dns.TypeTXT] != "NOERROR" {
				t.Errorf("%s: %v", at, got)
			}
		}
	})
	for _, at := range all {
		expect(t, n.vm, fromPuntdns, "+tcp", "@"+at, "db.internal")
		longConversation(t, n.vm, at)
	}
	for i, srv := range servers {
		if got := srv.Asked(); len(got) != 0 {
			t.Errorf("the backend of %s was asked %v", vips[i].at, got)
		}
	}
	// What is no resolver address is left alone.
	expect(t, n.vm, fromServer, "@10.0.1.21", "www.example.org")
	expect(t, n.vm, fromServer, "@10.96.0.12", "www.example.org")
}

// longConversation has more bytes both ways on one connection than a conntrack that sees
// one side alone lets through.
func longConversation(t *testing.T, g *lab.Guest, to string) {
	t.Helper()
	const padded, large = 320, 5 // 320 kB each way
	nc, err := g.Dial(within(t, wait), "tcp", net.JoinHostPort(to, "53"))
	if err != nil {
		t.Fatalf("%s: %v", to, err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(wait))
	var queries []byte
	for id := range uint16(padded) {
		m := withOptions("db.internal.", dns.TypeA, &dns.EDNS0_PADDING{Padding: make([]byte, 1000)})
		m.Id = id
		queries = append(queries, prefixed(pack(t, m))...)
	}
	// Answers have 4.5 s from their query on, which is too short for several of 64 KB on an
	// emulated machine: there each is asked for when all before it are here.
	alone := lab.IsSlow()
	answered := make(chan struct{}, padded+large)
	gone := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		defer func() { _ = nc.(*net.TCPConn).CloseWrite() }() // a connection that is gone shows below
		outstanding := padded
		for id := range uint16(large) {
			queries = append(queries, framed(t, padded+id, "many.internal.")...)
			if !alone && id < large-1 {
				continue
			}
			if _, err := nc.Write(queries); err != nil {
				t.Errorf("%s: %v", to, err)
				return
			}
			queries = nil
			for outstanding++; alone && outstanding > 0; outstanding-- {
				select {
				case <-answered:
				case <-gone:
					return
				}
			}
		}
	})
	var got []uint16
	c := &dns.Conn{Conn: nc}
	for {
		r, err := c.ReadMsg()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Errorf("%s: %v, after %d answers", to, err, len(got))
			break
		}
		want := 1
		if r.Id >= padded {
			want = manyAddresses
		}
		if len(r.Answer) != want {
			t.Errorf("%s: %d addresses in answer %d, want %d", to, len(r.Answer), r.Id, want)
		}
		got = append(got, r.Id)
		answered <- struct{}{}
	}
	close(gone)
	nc.Close()
	sending.Wait()
	slices.Sort(got)
	if n := len(slices.Compact(got)); n != padded+large {
		t.Errorf("%s: %d queries were answered of %d", to, n, padded+large)
	}
}
