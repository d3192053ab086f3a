// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	// daemon of the node is what answers where there is nothing to start, empty for none.
	daemon string
	// ready waits until nothing of an earlier load is left; nil where nothing ever is.
	ready func()
	// stopped is called when it has stopped; nil where there is nothing to do then.
	stopped func()
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
		{name: pPuntdns, asker: n.vm.Host, server: resolver, start: puntdns()},
		{name: pMetadata, asker: n.vm.Host, server: resolver, start: puntdns("metadata")},
		{name: pCeiling, asker: n.vm.Host, server: resolver, start: func() *lab.Process {
			key := func(table, name, column string) string {
				return strings.TrimSpace(n.SBCTL("--bare", "--columns=tunnel_key", "find", table, column+"="+name))
			}
			return b.serve(n.Node.Host, "flows are in place", self, "ceiling", strings.TrimPrefix(n.Node.OpenFlow, "unix:"),
				strconv.Itoa(b.dnsTable(n)), key("Datapath_Binding", "red", "external_ids:name"), key("Port_Binding", "vm", "logical_port"))
		}},
		{name: pNative, asker: n.vm.Host, server: resolver, daemon: "ovn-controller"},
		{name: pStock, asker: n.other.Host, server: stockAddr, start: func() *lab.Process {
			return b.launch(n.stock.Host, "CoreDNS-", b.coredns, "-conf", stock)
		}},
	}
}

// dnsTable is the OpenFlow table of OVN's DNS stage: the tables of ingress begin at 8.
func (b *bench) dnsTable(n *network) int {
	tables := n.SBCTL("--bare", "--columns=table_id", "find", "Logical_Flow", "pipeline=ingress", "external_ids:stage-name=ls_in_dns_lookup")
	table, err := strconv.Atoi(strings.Fields(tables + " -")[0])
	if err != nil {
		b.t.Fatalf("the DNS stage: %v", err)
	}
	return 8 + table
}

// local measures names of the guest's own network.
func (b *bench) local() {
	n := b.newNetwork()
	peers := b.peers(n)
	if b.elsewhere { // the others do not depend on the release
		peers = slices.DeleteFunc(peers, func(p peer) bool { return slices.Contains([]string{pMetadata, pStock}, p.name) })
	}
	b.localLoad(n, peers, loadTables{tLocal, tCPU, tLocalSwitch, tLocalLoad}, false)
	mid, high := b.report.table(tMedian), b.report.table(tP99)
	for range b.rounds {
		for _, p := range peers {
			b.with(p, func(*lab.Process) {
				b.dnsperfWarm(n, p)
				took, lost := b.latencies(p.asker, p.server, n.names, 2000)
				mid.put(p.name, float64(quantile(took, .5).Nanoseconds())/1e3)
				high.put(p.name, float64(quantile(took, .99).Nanoseconds())/1e3)
				b.say("2,000 queries/s, %s: median %s, p99 %s, %d lost", p.name, quantile(took, .5), quantile(took, .99), lost)
			})
		}
	}
	b.equalPriorities(n, peers)
}

// localLoad asks for local names as fast as peers answer. With equal, nobody has a priority before
// the others.
func (b *bench) localLoad(n *network, peers []peer, t loadTables, equal bool) {
	for range b.rounds {
		for _, p := range peers {
			b.with(p, func(proc *lab.Process) {
				if equal && proc != nil {
					b.renice(proc.Pid, "0")
				}
				b.dnsperfWarm(n, p)
				b.underLoad(n.Node, p, proc, n.file, 100, t)
			})
		}
	}
}

// equalPriorities measures local names once more, with the daemons of the node and the server at
// the priority of guests and of the load.
func (b *bench) equalPriorities(n *network, peers []peer) {
	daemons := []string{"ovs-vswitchd", "ovn-controller", "ovsdb-server"}
	for _, d := range daemons {
		b.renice(n.Node.Daemon(d).Pid, "0")
	}
	peers = slices.DeleteFunc(peers, func(p peer) bool { return p.name == pMetadata })
	what := "local names, all of one priority, "
	b.localLoad(n, peers, loadTables{tLocalEqual, what + "processor time a query, µs",
		what + "processor time of ovs-vswitchd a query, µs", what + "processor time of the generator a query, µs"}, true)
	for _, d := range daemons {
		b.renice(n.Node.Daemon(d).Pid, lab.Priority)
	}
}

// renice gives all threads of a process a niceness.
func (b *bench) renice(pid int, nice string) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(threads) == 0 {
		b.t.Fatalf("threads of %d: %v", pid, err)
	}
	argv := []string{"--priority", nice, "-p"}
	for _, t := range threads {
		argv = append(argv, filepath.Base(t))
	}
	if out, err := exec.Command("renice", argv...).CombinedOutput(); err != nil {
		b.t.Fatalf("renice: %v: %s", err, out)
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
		if p.stopped != nil {
			p.stopped()
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
