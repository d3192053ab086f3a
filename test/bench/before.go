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

// beforeUsage says on the page how to compare two versions.
const beforeUsage = "To compare another version of puntdns with the version of this checkout:\n\n" +
	"1. Build the other version: `git worktree add /tmp/before VERSION`, then `cd /tmp/before && make build`.\n" +
	"2. Here: `make bench BENCHFLAGS='-only before -before /tmp/before/bin/puntdns'`.\n\n" +
	"`-parts udp,tcp,cached,hijack` leaves out the part `million`, a database of 1,000,000 names; `-rounds 1 -length 1s` is a short look.\n\n"

// comparison measures another version of puntdns beside this one. Both have the same Corefiles, so
// these use nothing that is new.
type comparison struct {
	*bench
	// versions in the order of the next round. Each round begins with the version that ended the last.
	versions []version
}

type version struct{ row, binary string }

// beforeParts measure what a release must not slow down, each in a lab of its own.
var beforeParts = []suite{
	{name: "udp", run: comparing((*comparison).udp)},
	{name: "tcp", run: comparing((*comparison).tcp)},
	{name: "cached", run: comparing((*comparison).cached)},
	{name: "hijack", run: comparing((*comparison).hijack)},
	{name: "million", run: comparing((*comparison).million)},
}

func comparing(part func(*comparison)) func(*bench) {
	return func(b *bench) {
		if b.earlier == "" {
			b.report.leaveOut("another version of puntdns: its binary was not given, as by `-before /tmp/before/bin/puntdns`")
			return
		}
		part(&comparison{b, []version{{pPuntdns, b.puntdns}, {pBefore, b.earlier}}})
	}
}

// withoutACLs returns a new network whose packets do not pass through conntrack: Open vSwitch 3.1.0
// aborts now and then in a long load that does (conn_update_state).
func (c *comparison) withoutACLs() *network {
	n := c.newNetwork()
	for _, sw := range []string{"red", "blue"} {
		n.NBCTL("acl-del", sw)
	}
	n.Sync()
	return n
}

// inTurn starts the versions in turn, in each round, and has each measured.
func (c *comparison) inTurn(start func(*bench) *lab.Process, measure func(row string, p *lab.Process)) {
	for range c.rounds {
		for _, v := range c.versions {
			of := *c.bench
			of.puntdns = v.binary
			c.with(peer{name: v.row, start: func() *lab.Process { return start(&of) }}, func(p *lab.Process) { measure(v.row, p) })
		}
		slices.Reverse(c.versions)
	}
}

func (b *bench) put(table, row string, v float64) {
	b.report.table(table).put(row, v)
	b.say("%s, %s: %s", table, row, figure(v))
}

// rate puts the rate of a load, and what a query of it costs a process.
func (b *bench) rate(what, row string, p *lab.Process, load func() rate) {
	begin := b.cpu(p.Pid)
	r := load()
	cost := b.cpu(p.Pid) - begin
	if r.completed == 0 {
		b.t.Fatalf("%s, %s: no answers", what, row)
	}
	b.put(what+bRate, row, r.perSecond)
	b.put(what+bCPU, row, microseconds(cost)/r.completed)
	if r.lost > 0 {
		b.say("%s, %s: %.0f of %.0f lost", what, row, r.lost, r.lost+r.completed)
	}
}

// latency puts the quantiles of the latency at 2,000 queries/s.
func (b *bench) latency(what, row, network string, p peer, names []string) {
	took, lost := b.latenciesOver(network, p.asker, p.server, names, 2000)
	if len(took) == 0 {
		b.t.Fatalf("%s, %s: no answers", what, row)
	}
	b.put(what+bMedian, row, microseconds(quantile(took, .5)))
	b.put(what+bP99, row, microseconds(quantile(took, .99)))
	if lost > 0 {
		b.say("%s, %s: %d of %d lost", what, row, lost, lost+len(took))
	}
}

// overUDP puts rate and latency of names, which file has for dnsperf.
func (b *bench) overUDP(what, row string, proc *lab.Process, p peer, names []string, file string) {
	warm := *b
	warm.length = time.Second
	warm.dnsperf(p.asker, p.server, file, 10, 1000)
	b.rate(what, row, proc, func() rate { return b.dnsperf(p.asker, p.server, file, 100, 0) })
	b.latency(what, row, "udp", p, names)
}

// serves returns what starts puntdns by a Corefile.
func (n *network) serves(corefile string) func(*bench) *lab.Process {
	config := n.WriteFile("Corefile", corefile)
	return func(b *bench) *lab.Process {
		return b.serve(n.Node.Host, "flows are in place", b.puntdns, "-conf", config)
	}
}

func (c *comparison) udp() {
	n := c.withoutACLs()
	c.withMetadataToo(n, bLocal, n.corefile, n.names, n.file)
}

// cached measures outside names that cache has.
func (c *comparison) cached() {
	n := c.withoutACLs()
	upstream := n.Upstream()
	upstream.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.Answer = append(m.Answer, &dns.A{
			Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600}, A: net.IPv4(192, 0, 2, 80).To4(),
		})
		_ = w.WriteMsg(m)
	}))
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("host%d.example.org", i))
	}
	corefile := func(more ...string) string { return n.corefileTo(upstream.Addr, more...) }
	c.withMetadataToo(n, bCached, corefile, names, questions(n.Lab, "cached", names))
}

// withMetadataToo measures names over UDP without metadata and with it.
func (c *comparison) withMetadataToo(n *network, what string, corefile func(more ...string) string, names []string, file string) {
	p := peer{asker: n.vm.Host, server: resolver}
	for _, kind := range []struct{ name, plugin string }{{"", ""}, {bMetadata, "metadata"}} {
		c.inTurn(n.serves(corefile(kind.plugin)), func(row string, proc *lab.Process) {
			c.overUDP(what+kind.name, row, proc, p, names, file)
		})
	}
}

// tcp measures local names over TCP.
func (c *comparison) tcp() {
	n := c.withoutACLs()
	c.inTurn(n.serves(n.corefile()), func(row string, proc *lab.Process) {
		p := peer{name: row, asker: n.vm.Host, server: resolver}
		c.dnsperfWarm(n, p)
		c.rate(bTCPOpen, row, proc, func() rate { return c.keptOpen(n, p) })
		c.latency(bTCPOpen, row, "tcp", p, n.names)
		c.rate(bTCPNew, row, proc, func() rate { return c.newConnections(n, p) })
		r, median, p99 := c.connect(n, p, 1, c.tcpConnections/3)
		if r.completed == 0 {
			c.t.Fatalf("%s, %s: no answers", bTCPNew, row)
		}
		c.put(bTCPNew+bMedianAlone, row, median)
		c.put(bTCPNew+bP99Alone, row, p99)
	})
}

// hijack measures queries that puntdns resumes, which a stock CoreDNS in another guest answers.
func (c *comparison) hijack() {
	n := c.withoutACLs()
	peers := c.peers(n)
	p := peers[slices.IndexFunc(peers, func(p peer) bool { return p.name == pStock })]
	p.start()
	corefile := fmt.Sprintf(`. {
    ofpunt br-int {
        openflow %s
        ovsdb %s
        address any
        rate off
    }
    errors
    prometheus 127.0.0.1:9153
    ovnhosts {
        southbound %s
        fallthrough
    }
    passthrough
}
`, n.Node.OpenFlow, n.Node.OVSDB, n.SB)
	c.inTurn(n.serves(corefile), func(row string, proc *lab.Process) {
		c.overUDP(bHijack, row, proc, p, n.names, n.file)
	})
}

// million measures the largest database of the suite scale. The guest asks for names of its network.
func (c *comparison) million() {
	l, size := c.newScaleLab(), c.large()
	began := time.Now()
	d := c.fill(l.Lab, size)
	defer d.close()
	d.addChassis(l.Node.Name)
	c.say("%s: database filled in %.0f s", size, time.Since(began).Seconds())
	var names []string
	for i := range 100 {
		names = append(names, recordName(0, size.names-1-i))
	}
	file := questions(l.Lab, "names", names)
	p := peer{asker: l.vm.Host, server: resolver}
	var sync time.Duration
	start := func(b *bench) (proc *lab.Process) {
		proc, sync = b.run(l, "all")
		return proc
	}
	runs := 0
	c.inTurn(start, func(row string, proc *lab.Process) {
		c.put(bMillion+bSync, row, sync.Seconds())
		c.put(bMillion+bRSS, row, c.memory(proc.Pid, "VmRSS"))
		c.overUDP(bMillion, row, proc, p, names, file)
		runs++
		var after []float64
		for i := range c.changes {
			// Other than in the run before.
			address := fmt.Sprintf("192.0.%d.%d", runs&255, i+1)
			d.setRecord(0, 1+i, address)
			after = append(after, milliseconds(c.follows(l.vm, recordName(0, 1+i)+".", address)))
		}
		c.put(bMillion+bChanged, row, median(after))
	})
}
