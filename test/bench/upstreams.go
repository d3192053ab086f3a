// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

const (
	// dyingPace is how many queries a second are asked while an upstream dies.
	dyingPace = 200
	// tooLong is when an answer is counted as late.
	tooLong = 100 * time.Millisecond
	// innerDying is the first upstream of what runs in a guest.
	innerDying = "10.0.0.80:5301"
)

// upstreams measures the answers of two upstreams, the first of which falls silent under load, and the cost of a
// second server while both answer.
func (b *bench) upstreams() {
	o := b.newOutside()
	defer o.thinks.end()
	d := &dying{outside: o, first: o.Upstream(), firstInner: o.innerGuest.ServeDNS(innerDying)}
	d.answer()
	o.underLoad(o.names, d.peers(), []asked{{50, forwardTwo}})
	for range o.rounds {
		for _, p := range d.peers() {
			o.with(p, func(*lab.Process) { d.measure(p) })
		}
	}
}

// dying are first upstreams, which fall silent.
type dying struct {
	*outside
	first, firstInner *lab.DNSServer // on the node, and in the other guest
}

func (d *dying) peers() []peer {
	sequential := func(more string) string {
		return d.first.Addr + " " + d.upstream.Addr + " {\n        policy sequential\n" + more + "    }"
	}
	peers := []peer{
		d.puntdns("", sequential("")),
		d.puntdnsWith(pNextSoon, "", "", sequential("        max_fails 1\n        health_check 100ms\n        read_timeout 250ms\n")),
		d.puntdnsWith(pHedge, "hedge 50ms", "", sequential("")),
	}
	return append(peers, d.dnsmasq("cache-size=0\ndns-forward-max=10000\n", innerDying, d.inner.Addr)...)
}

// answer has both first upstreams answer.
func (d *dying) answer() {
	d.first.SetHandler(d.thinks)
	d.firstInner.SetHandler(d.thinks)
}

// measure asks a peer while both upstreams answer, and then while the first one falls silent after a sixth of the
// time. *forward* knows that a server is down 6 s later.
func (d *dying) measure(p peer) {
	defer d.answer()
	d.warm(p, d.names)
	seconds := func() int { return len(d.upstream.Asked()) + len(d.inner.Asked()) }
	before := seconds()
	took, lost := d.latencies(p.asker, p.server, d.list, dyingPace)
	d.report.table(tDyingSecond).put(p.name, 100*float64(seconds()-before)/float64(len(took)+lost))

	long := *d.bench
	long.length *= 3
	silence := time.AfterFunc(long.length/6, func() {
		silent := dns.HandlerFunc(func(dns.ResponseWriter, *dns.Msg) {})
		d.first.SetHandler(silent)
		d.firstInner.SetHandler(silent)
	})
	defer silence.Stop()
	took, lost = long.latencies(p.asker, p.server, d.list, dyingPace)
	late := lost
	for _, t := range took {
		if t > tooLong {
			late++
		}
	}
	d.report.table(tDying).put(p.name, 100*float64(late)/float64(len(took)+lost))
	if len(took) > 0 {
		d.report.table(tDyingMedian).put(p.name, milliseconds(quantile(took, .5)))
		d.report.table(tDying99).put(p.name, milliseconds(quantile(took, .99)))
	}
	d.say("an upstream dies, %s: %d of %d over %s, %d lost", p.name, late, len(took)+lost, tooLong, lost)
}
