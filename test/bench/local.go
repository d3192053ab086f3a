// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// Addresses that the guest asks.
const (
	resolver  = "169.254.169.254" // puntdns, the ceiling, and OVN's own DNS, which takes any
	stockAddr = "10.0.1.53"       // of the guest with a stock CoreDNS
)

// network is a lab with a guest that asks and what is asked.
type network struct {
	*lab.Lab
	vm *lab.Guest
	// stock runs a stock CoreDNS, and other asks it: on a switch without DNS
	// rows, or OVN's own DNS would take the queries.
	stock, other *lab.Guest
	names        []string
	file         string // of dnsperf
}

func (b *bench) newNetwork() *network {
	n := &network{Lab: lab.New(b.t, lab.Options{})}
	for i, sw := range []string{"red", "blue"} {
		n.AddSwitch(sw)
		n.AddRouter("r-"+sw, lab.RouterPort{
			Switch: sw, MAC: "02:00:00:00:01:01", Networks: []string{fmt.Sprintf("10.0.%d.1/24", i)},
		})
		for _, direction := range []string{"from-lport", "to-lport"} {
			n.NBCTL("acl-add", sw, direction, "1000", "ip", "allow-related")
		}
	}
	records := map[string]string{}
	for i := range 100 {
		name := fmt.Sprintf("vm%d.example.internal", i)
		n.names = append(n.names, name)
		records[name] = fmt.Sprintf("10.0.2.%d", i)
	}
	n.AddDNS(records, "red")
	n.vm = n.guest("vm", "red", "10.0.0.11", "10.0.0.1", "02:00:00:00:00:11")
	n.other = n.guest("other", "blue", "10.0.1.11", "10.0.1.1", "02:00:00:00:01:11")
	n.stock = n.guest("stock", "blue", stockAddr, "10.0.1.1", "02:00:00:00:01:53")
	n.Sync()
	n.file = questions(n.Lab, "names", n.names)
	return n
}

func (n *network) guest(name, sw, addr, gateway, mac string) *lab.Guest {
	return n.Node.AddGuest(lab.Guest{
		Name: name, Switch: sw, MAC: mac, Addrs: lab.Prefixes(addr + "/24"), Gateway4: lab.Addr(gateway), PortSecurity: true,
	})
}

// peer is one of those that are measured in turn.
type peer struct {
	name   string
	asker  *lab.Host
	server string // an address, with a port if it is not 53
	// start starts it and returns it when it answers; nil where there is
	// nothing to start.
	start func() *lab.Process
}

// corefile of puntdns: the full chain that the documentation recommends, in front of an
// upstream that nobody asks. The plugins that more adds stand first.
func (n *network) corefile(more ...string) string { return n.corefileTo("127.0.0.1:5300", more...) }

// corefileTo is corefile with an upstream.
func (n *network) corefileTo(upstream string, more ...string) string {
	return fmt.Sprintf(`. {
    ofpunt br-int {
        openflow %s
        ovsdb %s
        rate off
    }
    %s
    errors
    prometheus 127.0.0.1:9153
    ready 127.0.0.1:8181 {
        monitor continuously
    }
    ovnhosts {
        southbound %s
        fallthrough
    }
    cache 30
    forward . %s
}
`, n.Node.OpenFlow, n.Node.OVSDB, strings.Join(more, "\n    "), n.SB, upstream)
}

// started waits until the log of a process has a line.
func (b *bench) started(p *lab.Process, line string) *lab.Process {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.WaitLog(ctx, line); err != nil {
		b.t.Fatalf("%v\n%s", err, p.Log())
	}
	return p
}

// runs counts the processes that were started, so that each has a log of its own.
var runs int

func (b *bench) launch(h *lab.Host, line string, argv ...string) *lab.Process {
	runs++
	return b.started(h.Start(fmt.Sprintf("run%d", runs), nil, argv...), line)
}

// serve is launch for what runs on the node itself: it has the priority of the
// switch's daemons, as deploy/puntdns.service gives it to puntdns.
func (b *bench) serve(h *lab.Host, line string, argv ...string) *lab.Process {
	return b.launch(h, line, append([]string{"nice", "-n", lab.Priority}, argv...)...)
}

func (b *bench) peers(n *network) []peer {
	self, err := os.Executable()
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	var hosts strings.Builder
	for i, name := range n.names {
		fmt.Fprintf(&hosts, "10.0.2.%d %s\n", i, name)
	}
	stock := n.WriteFile("Corefile.stock", fmt.Sprintf(
		". {\n    bind %s\n    errors\n    prometheus 127.0.0.1:9153\n    hosts %s {\n        fallthrough\n    }\n    cache 30\n    forward . 127.0.0.1:5300\n}\n",
		stockAddr, n.WriteFile("hosts", hosts.String())))
	puntdns := func(more ...string) func() *lab.Process {
		return func() *lab.Process {
			return b.serve(n.Node.Host, "flows are in place", b.puntdns, "-conf", n.WriteFile("Corefile", n.corefile(more...)))
		}
	}
	return []peer{
		{pPuntdns, n.vm.Host, resolver, puntdns()},
		{pMetadata, n.vm.Host, resolver, puntdns("metadata")},
		{pCeiling, n.vm.Host, resolver, func() *lab.Process {
			key := func(table, name, column string) string {
				return strings.TrimSpace(n.SBCTL("--bare", "--columns=tunnel_key", "find", table, column+"="+name))
			}
			return b.serve(n.Node.Host, "flows are in place", self, "ceiling", strings.TrimPrefix(n.Node.OpenFlow, "unix:"),
				strconv.Itoa(dnsTable), key("Datapath_Binding", "red", "external_ids:name"), key("Port_Binding", "vm", "logical_port"))
		}},
		{pNative, n.vm.Host, resolver, nil},
		{pStock, n.other.Host, stockAddr, func() *lab.Process {
			return b.launch(n.stock.Host, "CoreDNS-", b.coredns, "-conf", stock)
		}},
	}
}

// dnsTable is where OVN 23.03 has its DNS stage.
const dnsTable = 30

// local measures names of the guest's own network.
func (b *bench) local() {
	n := b.newNetwork()
	peers := b.peers(n)
	throughput, cost := b.report.table(tLocal), b.report.table(tCPU)
	for range b.rounds {
		for _, p := range peers {
			b.with(p, func(proc *lab.Process) {
				b.dnsperfWarm(n, p)
				before := time.Duration(0)
				if proc != nil {
					before = b.cpu(proc.Pid)
				}
				r := b.dnsperf(p.asker, p.server, n.file, 100, 0)
				throughput.put(p.name, r.perSecond)
				if proc != nil {
					cost.put(p.name, float64((b.cpu(proc.Pid)-before).Nanoseconds())/1e3/r.completed)
				}
				b.say("local names, %s: %.0f queries/s, %.0f lost", p.name, r.perSecond, r.lost)
			})
		}
	}
	mid, high := b.report.table(tMedian), b.report.table(tP99)
	for range b.rounds {
		for _, p := range peers {
			b.with(p, func(*lab.Process) {
				b.dnsperfWarm(n, p)
				took, lost := b.latencies(p.asker, p.server, n.names, 2000)
				mid.put(p.name, float64(quantile(took, .5).Nanoseconds())/1e3)
				high.put(p.name, float64(quantile(took, .99).Nanoseconds())/1e3)
				b.report.distribution(p.name, took)
				b.say("2,000 queries/s, %s: median %s, p99 %s, %d lost", p.name, quantile(took, .5), quantile(took, .99), lost)
			})
		}
	}
}

// with has a peer run while f does.
func (b *bench) with(p peer, f func(*lab.Process)) {
	if p.start == nil {
		f(nil)
		return
	}
	proc := p.start()
	defer func() {
		if err := proc.Stop(); err != nil {
			b.t.Fatalf("%s: %v\n%s", p.name, err, proc.Log())
		}
	}()
	f(proc)
}

// dnsperfWarm has caches filled and waits for the first answers.
func (b *bench) dnsperfWarm(n *network, p peer) {
	short := *b
	short.length = time.Second
	if r := short.dnsperf(p.asker, p.server, n.file, 10, 1000); r.completed == 0 {
		b.t.Fatalf("%s: no answers", p.name)
	}
}
