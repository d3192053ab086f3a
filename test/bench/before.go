// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// before measures the binary of another version beside this one, with what a release must
// not slow down: local names, and outside names that cache has. Each round begins with the
// other one, so that neither is always the first.
func (b *bench) before() {
	if b.earlier == "" {
		return
	}
	n := b.newNetwork()
	upstream := n.Upstream()
	upstream.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.Answer = append(m.Answer, &dns.A{
			Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600}, A: net.IPv4(192, 0, 2, 80).To4(),
		})
		_ = w.WriteMsg(m)
	}))
	var outside []string
	for i := range 100 {
		outside = append(outside, fmt.Sprintf("host%d.example.org", i))
	}
	versions := []struct{ name, binary string }{{pPuntdns, b.puntdns}, {pBefore, b.earlier}}
	for _, c := range []struct {
		what, file string
		more       []string
		rate, cost string // tables
	}{
		{"local names", n.file, nil, tBeforeLocal, tBeforeLocalCPU},
		{"local names, metadata", n.file, []string{"metadata"}, tBeforeMetadata, tBeforeMetadataCPU},
		{"outside names from cache", questions(n.Lab, "cached", outside), nil, tBeforeCached, tBeforeCachedCPU},
		{"outside names from cache, metadata", questions(n.Lab, "cached", outside), []string{"metadata"}, tBeforeCachedMetadata, tBeforeCachedMetadataCPU},
	} {
		config := n.WriteFile("Corefile", n.corefileTo(upstream.Addr, c.more...))
		throughput, cost := b.report.table(c.rate), b.report.table(c.cost)
		for range b.rounds {
			for _, v := range versions {
				p := peer{name: v.name, asker: n.vm.Host, server: resolver, start: func() *lab.Process {
					return b.serve(n.Node.Host, "flows are in place", v.binary, "-conf", config)
				}}
				b.with(p, func(proc *lab.Process) {
					warm := *b
					warm.length = time.Second
					warm.dnsperf(p.asker, p.server, c.file, 10, 1000)
					begin := b.cpu(proc.Pid)
					r := b.dnsperf(p.asker, p.server, c.file, 100, 0)
					each := float64((b.cpu(proc.Pid) - begin).Nanoseconds()) / 1e3 / r.completed
					throughput.put(v.name, r.perSecond)
					cost.put(v.name, each)
					b.say("%s, %s: %.0f queries/s, %.2f µs of processor time each, %.0f lost", c.what, v.name, r.perSecond, each, r.lost)
				})
			}
			slices.Reverse(versions)
		}
	}
}
