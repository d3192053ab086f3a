// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// passedOn asks server as the guest for each question that it gets, as a forwarding
// server in the guest does.
func passedOn(g *lab.Guest, server string) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetQuestion(r.Question[0].Name, r.Question[0].Qtype)
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		defer cancel()
		answer, _, err := g.Exchange(ctx, m, net.JoinHostPort(server, "53"))
		if err != nil {
			return
		}
		answer.Id = r.Id
		_ = w.WriteMsg(answer) // to whom still waits for it
	})
}

// A server that forward asks is a guest of the bridge: what it asks itself must not
// come back to it for good.
func TestForwardToGuest(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	guest := n.guest("red-dns", 13)
	n.Sync()
	behind := n.peer.ServeDNS("10.0.0.12:53", "www.example.org. 77 IN A 192.0.2.9", "own.example.org. 77 IN A 192.0.2.10")
	// The node reaches the guest by its address, here by one of its own, which it must
	// not tell the other guests.
	for _, command := range [][]string{
		{"sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=8"},
		{"ip", "address", "add", "10.0.0.13/32", "dev", "lo"},
	} {
		if _, err := n.Node.Exec(within(t, wait), command...); err != nil {
			t.Fatal(err)
		}
	}
	known := n.Node.ServeDNS("10.0.0.13:53")
	// By this address OVN knows nobody, as by one that a router translates.
	translated := n.Upstream()

	reason := func(s *server, result, reason string) float64 {
		return s.metric("coredns_ofpunt_packet_ins_total", "bridge", lab.Bridge, "result", result, "reason", reason)
	}
	t.Run("hijack", func(t *testing.T) {
		known.SetHandler(passedOn(guest, "10.0.0.12"))
		s := serve(t, n.Lab, pipelineCorefile("address any", "fallthrough", "forward . "+known.Addr))
		s.log(logForwardHijack, "10.0.0.13", "red-dns")
		n.punts(t, s, 2, func() { expect(t, n.vm, "NOERROR 77 192.0.2.9", "@"+public4, "www.example.org") })
		n.punts(t, s, 1, func() { expect(t, guest, "NOERROR 77 192.0.2.10", "@10.0.0.12", "own.example.org") })
		n.punts(t, s, 1, func() { expect(t, guest, fromPuntdns, "@10.0.0.12", "db.internal") })
		if got := known.Count("www.example.org"); got != 1 {
			t.Errorf("the server was asked %d times for a name that one guest has asked for", got)
		}
		if got := known.Count("own.example.org"); got != 0 {
			t.Errorf("the server was asked %d times for what it asks itself", got)
		}
		if got := reason(s, "resumed", "loop"); got != 2 {
			t.Errorf("%v queries count as a loop, want 2", got)
		}
		s.endWell()
	})
	t.Run("hijack, by another address", func(t *testing.T) {
		translated.SetHandler(passedOn(guest, "10.0.0.12"))
		s := serve(t, n.Lab, pipelineCorefile("address any", "fallthrough", "forward . "+translated.Addr))
		expect(t, n.vm, "NOERROR 77 192.0.2.9", "@"+public4, "www.example.org")
		if got := translated.Count("www.example.org"); got > 12 {
			t.Errorf("the server was asked %d times, want 12 at most", got)
		}
		if got := reason(s, "resumed", "loop"); got != 1 {
			t.Errorf("%v queries count as a loop, want 1", got)
		}
		s.endWell()
	})
	t.Run("service", func(t *testing.T) {
		known.SetHandler(passedOn(guest, resolver4))
		s := serve(t, n.Lab, pipelineCorefile("", "fallthrough", "cache\nforward . "+known.Addr))
		s.log(logForwardLoop, "10.0.0.13", "red-dns")
		before := known.Count("www.example.org")
		n.punts(t, s, 2, func() { expect(t, n.vm, "SERVFAIL", "@"+resolver4, "www.example.org") })
		if got := known.Count("www.example.org") - before; got != 1 {
			t.Errorf("the server was asked %d times for a name that one guest has asked for", got)
		}
		if got := reason(s, "refused", "loop"); got != 1 {
			t.Errorf("%v queries count as a loop, want 1", got)
		}
		s.endWell()
	})
	// Over the limits, what another server may know goes there.
	t.Run("no room", func(t *testing.T) {
		for _, overload := range []string{"servfail", "drop"} {
			t.Run(overload, func(t *testing.T) {
				asked, release := make(chan struct{}, 2), make(chan struct{})
				translated.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
					asked <- struct{}{}
					<-release
					_ = w.WriteMsg(new(dns.Msg).SetReply(r))
				}))
				s := serve(t, n.Lab, pipelineCorefile("address any\nmax_concurrent 64 2\noverload "+overload, "domain red.internal\nfallthrough", "forward . "+translated.Addr))
				ask := func(d time.Duration, server, name string) string {
					ctx, cancel := context.WithTimeout(t.Context(), d)
					defer cancel()
					r, err := exchange(ctx, n.vm, server, name, dns.TypeA)
					if err != nil {
						return "no reply"
					}
					return withTTL(r)
				}
				type question struct{ name, want string }
				known := []question{{"db.internal.", "SERVFAIL"}, {"DB.Internal.", "SERVFAIL"}}
				patience := wait
				if overload == "drop" {
					known, patience = []question{{"db.internal.", "no reply"}}, 500*time.Millisecond
				}
				n.punts(t, s, 3+len(known), func() {
					var wg sync.WaitGroup
					defer wg.Wait()
					defer close(release)
					for _, name := range []string{"one.example.org.", "two.example.org."} {
						wg.Go(func() { ask(wait, public4, name) }) // fills the limit
					}
					for range 2 {
						select {
						case <-asked:
						case <-time.After(wait):
							t.Fatal("the limit is not full")
						}
					}
					// It is full until the deadline of the two. No process is started in
					// the meantime, for that takes its time on a busy machine.
					if got := ask(wait, "10.0.0.12", "www.example.org."); got != "NOERROR 77 192.0.2.9" {
						t.Errorf("www.example.org.: %s", got)
					}
					for _, q := range known {
						if got := ask(patience, "10.0.0.12", q.name); got != q.want {
							t.Errorf("%s: %s, want %s", q.name, got, q.want)
						}
					}
				})
				if got := reason(s, "resumed", "port-limit"); got != 1 {
					t.Errorf("%v queries over the limit went on, want 1", got)
				}
				s.endWell()
			})
		}
	})
	if got := behind.Count("db.internal."); got != 0 {
		t.Errorf("the server was asked %d times for a name of the network", got)
	}
}
