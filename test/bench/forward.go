// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// upstreamDelay is how long the upstream thinks.
const upstreamDelay = 10 * time.Millisecond

// forward measures outside names on a bridge without OVN, where a forwarder in the
// manner of Neutron's can run too.
func (b *bench) forward() {
	o := b.newOutside()
	defer o.thinks.end()
	o.underLoad(o.names, o.uncached(), []asked{{50, forward50}, {500, forward500}})
	o.underLoad(questions(o.Lab, "few", o.list[:100]), o.cached(), []asked{{100, forwardCached}})
	o.steady()
	o.deadUpstream()
}

// outside is a bridge without OVN, with guests and upstreams for names that no database has.
type outside struct {
	*bench
	*lab.Lab
	vm     *lab.Guest
	server *lab.Guest // has a server of the tenant's own
	// upstream is for what runs on the node, inner for what runs in a guest: it is in another guest
	// of the bridge. Both think for upstreamDelay.
	upstream, inner *lab.DNSServer
	innerGuest      *lab.Guest
	thinks          *slow
	list            []string
	names           string // file with them
}

const (
	serverAddr = "10.0.0.53"
	innerAddr  = "10.0.0.80:5300"
	// Sockets that nobody reads, on the node and in the other guest.
	silent      = "127.0.0.53:5390"
	silentInner = "10.0.0.80:5390"
)

func (b *bench) newOutside() *outside {
	o := &outside{bench: b, Lab: lab.New(b.t, lab.Options{Plain: true})}
	guest := func(name string, last int, routes ...string) *lab.Guest {
		return o.Node.AddGuest(lab.Guest{Name: name, MAC: fmt.Sprintf("02:00:00:00:00:%02x", last),
			Addrs: lab.Prefixes(fmt.Sprintf("10.0.0.%d/24", last)), Routes: routes})
	}
	o.vm = guest("vm", 11, resolver+" dev eth0")
	b.neighbor(o.vm)
	o.server = guest("server", 53)
	o.thinks = newSlow(upstreamDelay, func(r *dns.Msg) *dns.Msg {
		m := new(dns.Msg).SetReply(r)
		m.Answer = append(m.Answer, &dns.A{
			Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 80).To4(),
		})
		return m
	})
	o.innerGuest = guest("inner", 80)
	o.upstream, o.inner = o.Upstream(), o.innerGuest.ServeDNS(innerAddr)
	o.upstream.SetHandler(o.thinks)
	o.inner.SetHandler(o.thinks)
	for i := range b.outsideNames {
		o.list = append(o.list, fmt.Sprintf("host%d.example.org", i))
	}
	o.names = questions(o.Lab, "names", o.list)
	return o
}

// asked is a load, and the tables of what is measured.
type asked struct {
	outstanding int
	loadTables
}

func (o *outside) underLoad(questions string, peers []peer, loads []asked) {
	for range o.rounds {
		for _, p := range peers {
			o.with(p, func(proc *lab.Process) {
				o.warm(p, questions)
				for _, load := range loads {
					o.bench.underLoad(o.Node, p, proc, questions, load.outstanding, load.loadTables)
				}
			})
		}
	}
}

// warm has caches filled and waits for the first answers.
func (o *outside) warm(p peer, questions string) {
	short := *o.bench
	short.length = time.Second
	if r := short.dnsperf(p.asker, p.server, questions, 10, 1000); r.completed == 0 {
		o.t.Fatalf("%s: no answers", p.name)
	}
}

// steady measures how long an answer takes where a guest asks 50 times a second: mostly one query
// after the other.
func (o *outside) steady() {
	mid, high := o.report.table(tSteady), o.report.table(tSteady99)
	for range o.rounds {
		for _, p := range o.uncached() {
			o.with(p, func(*lab.Process) {
				o.warm(p, o.names)
				took, lost := o.latencies(p.asker, p.server, o.list, 50)
				mid.put(p.name, milliseconds(quantile(took, .5)))
				high.put(p.name, milliseconds(quantile(took, .99)))
				o.say("outside names, 50 a second, %s: median %s, p99 %s, %d lost", p.name, quantile(took, .5), quantile(took, .99), lost)
			})
		}
	}
}

// deadPace is how many queries a second are asked while the first upstream is dead.
const deadPace = 20

// deadUpstream measures what guests see of a first upstream that is silent, beside one that answers.
func (o *outside) deadUpstream() {
	mid, high, lost := o.report.table(tDead), o.report.table(tDead99), o.report.table(tDeadLost)
	for addr, h := range map[string]*lab.Host{silent: o.Node.Host, silentInner: o.innerGuest.Host} {
		pc, err := h.ListenPacket("udp", addr)
		if err != nil {
			o.t.Fatalf("%v", err)
		}
		defer pc.Close()
	}
	for range o.rounds {
		for _, p := range o.withDeadUpstream() {
			o.with(p, func(*lab.Process) {
				took, missed := o.latencies(p.asker, p.server, o.list, deadPace)
				// A stub resolver has given up (resolv.conf(5), timeout).
				for len(took) > 0 && took[len(took)-1] > patience {
					took, missed = took[:len(took)-1], missed+1
				}
				if len(took) > 0 {
					mid.put(p.name, milliseconds(quantile(took, .5)))
					high.put(p.name, milliseconds(quantile(took, .99)))
				}
				lost.put(p.name, 100*float64(missed)/float64(missed+len(took)))
				o.say("a dead upstream, %s: median %s, p99 %s, %d of %d lost", p.name, quantile(took, .5), quantile(took, .99), missed, missed+len(took))
			})
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// neighbor tells a guest the resolver's hardware address: without puntdns nobody
// answers for it, and who has asked in vain waits a second.
func (b *bench) neighbor(g *lab.Guest) {
	if _, err := g.Exec(context.Background(), "ip", "neigh", "replace", resolver, "lladdr", "02:00:64:6e:73:35", "dev", lab.Iface); err != nil {
		b.t.Fatalf("%v", err)
	}
}
