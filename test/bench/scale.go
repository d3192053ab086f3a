// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// scale measures a database of several sizes on a real ovsdb-server: everything
// read, and what a node with 20 of the ports needs.
func (b *bench) scale() {
	for _, s := range b.sizes {
		b.scaleAt(s)
		b.t.End()
	}
}

// scaleLab is a switch without OVN beside a Southbound database: northd would
// delete what it has not made.
type scaleLab struct {
	*lab.Lab
	vm    *lab.Guest // on port p0-0
	spare *lab.Guest // on no logical port
}

func (b *bench) newScaleLab() *scaleLab {
	l := &scaleLab{Lab: lab.New(b.t, lab.Options{Plain: true})}
	guest := func(name, port string, number int) *lab.Guest {
		g := l.Node.AddGuest(lab.Guest{
			Name: name, Port: port, MAC: fmt.Sprintf("02:00:00:00:00:%02x", number),
			Addrs: lab.Prefixes(fmt.Sprintf("10.0.0.%d/24", number)), Routes: []string{resolver + " dev eth0"},
		})
		b.neighbor(g)
		return g
	}
	l.vm = guest("vm", portName(0, 0), 10)
	l.spare = guest("spare", "nobody", 11)
	return l
}

func (l *scaleLab) corefile(monitor string) string {
	return fmt.Sprintf(`. {
    ofpunt br-int {
        openflow %s
        ovsdb %s
        placement table 0 102
        rate off
    }
    errors
    prometheus 127.0.0.1:9153
    pprof 127.0.0.1:6053
    ready 127.0.0.1:8181 {
        monitor continuously
    }
    ovnhosts {
        southbound %s
        monitor %s
    }
}
`, l.Node.OpenFlow, l.Node.OVSDB, l.SB, monitor)
}

// run starts puntdns and returns it with the time until it was ready.
func (b *bench) run(l *scaleLab, monitor string) (*lab.Process, time.Duration) {
	began := time.Now()
	p := b.serve(l.Node.Host, "flows are in place", b.puntdns, "-conf", l.WriteFile("Corefile", l.corefile(monitor)))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := l.Node.WaitHTTP(ctx, "http://127.0.0.1:8181/ready", 200); err != nil {
		b.t.Fatalf("%v\n%s", err, p.Log())
	}
	return p, time.Since(began)
}

func (b *bench) scaleAt(s size) {
	l := b.newScaleLab()
	stop := func(p *lab.Process) {
		if err := p.Stop(); err != nil {
			b.t.Fatalf("%v\n%s", err, p.Log())
		}
	}
	put := func(measure string, v float64, text string) {
		b.report.table(measure).put(s.String(), v)
		b.say("%s, %s: "+text, s, measure, v)
	}

	// What a process costs that has nothing to read.
	sb := b.open(l.SB, "OVN_Southbound")
	chassis := sb.addChassis(l.Node.Name)
	sb.close()
	p, _ := b.run(l, "all")
	empty := b.liveHeap(l)
	stop(p)

	began := time.Now()
	d := b.fill(l.Lab, s)
	defer d.close()
	b.say("%s: database filled in %.0f s", s, time.Since(began).Seconds())

	for range b.rounds {
		p, took := b.run(l, "all")
		put(tSync, took.Seconds(), "%.2f")
		stop(p)
	}
	p, _ = b.run(l, "all")
	put(tRSS, b.memory(p.Pid, "VmRSS"), "%.0f")
	put(tHWM, b.memory(p.Pid, "VmHWM"), "%.0f")
	full := b.liveHeap(l)
	put(tHeap, (full-empty)/1e6, "%.2f")

	// One record after the other, while somebody asks. The first packet of a guest
	// costs the switch an upcall.
	b.follows(l.vm, recordName(0, 0)+".", recordZero(0))
	var after []float64
	for i := range b.changes {
		address := fmt.Sprintf("192.0.2.%d", i+1)
		d.setRecord(0, 1+i, address)
		after = append(after, milliseconds(b.follows(l.vm, recordName(0, 1+i)+".", address)))
	}
	put(tChanged, median(after), "%.2f")
	put(tChangedMost, slices.Max(after), "%.2f")
	put(tRebuild, b.metric(l.Node, "coredns_ovnhosts_snapshot_rebuild_seconds")*1e3, "%.3f")
	b.underChange(l, d, s, put)
	stop(p)

	// A node with 20 of the ports, and none of the last switches, one for each round.
	ports := []string{portName(0, 0)}
	for i := range 19 {
		ports = append(ports, portName(i*(s.switches-b.rounds)/20, 1+i))
	}
	b.placePorts(l, ports[1:])
	for _, p := range ports {
		d.bind(p, chassis)
	}
	for range b.rounds {
		p, took := b.run(l, "local")
		put(tLocalStart, took.Seconds(), "%.2f")
		stop(p)
	}
	p, _ = b.run(l, "local")
	local := b.liveHeap(l)
	put(tLocalMB, (local-empty)/1e6, "%.2f")
	put(tLocalHeap, 100*(local-empty)/(full-empty), "%.1f")
	// A network that the node has not, another one each round: what puntdns has read stays for a while.
	flows := b.flows(l)
	for i := range b.rounds {
		network := s.switches - 1 - i
		guest := portName(network, 7)
		l.Node.VSCTL("set", "Interface", l.spare.NodePort, "external_ids:iface-id="+guest)
		d.bind(guest, chassis)
		put(tNewGuest, milliseconds(b.follows(l.spare, recordName(network, 0)+".", recordZero(network))), "%.0f")
		d.bind(guest, nil)
		l.Node.VSCTL("set", "Interface", l.spare.NodePort, "external_ids:iface-id=nobody")
		b.awaitFlows(l, flows)
	}
	stop(p)
}

// underChange asks at a steady pace while records change ten times a second.
func (b *bench) underChange(l *scaleLab, d *database, s size, put func(string, float64, string)) {
	var names []string
	for i := range 100 {
		names = append(names, recordName(0, s.names-1-i))
	}
	quiet, _ := b.latencies(l.vm.Host, resolver, names, 2000)
	busy, lost := b.latenciesUnderChange(l, d, s, names)
	put(tWorstQuiet, milliseconds(quantile(quiet, 1)), "%.2f")
	put(tWorstBusy, milliseconds(quantile(busy, 1)), "%.2f")
	put(tLost, float64(lost), "%.0f")
}

// latenciesUnderChange is latencies while records change.
func (b *bench) latenciesUnderChange(l *scaleLab, d *database, s size, names []string) (took []time.Duration, lost int) {
	end, done := make(chan struct{}), sync.WaitGroup{}
	defer done.Wait()
	defer close(end)
	done.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			case <-tick.C:
				d.setRecord(i%s.switches, 500, fmt.Sprintf("192.0.%d.%d", i>>8&255, i&255))
			}
		}
	})
	return b.latencies(l.vm.Host, resolver, names, 2000)
}

// placePorts binds logical ports to internal ports of the bridge.
func (b *bench) placePorts(l *scaleLab, ports []string) {
	var args []string
	for i, p := range ports {
		name := fmt.Sprintf("in%d", i)
		if len(args) > 0 {
			args = append(args, "--")
		}
		args = append(args, "add-port", lab.Bridge, name, "--", "set", "Interface", name, "type=internal", "external_ids:iface-id="+p)
	}
	l.Node.VSCTL(args...)
}

// flows is how many flows puntdns has in the switch.
func (b *bench) flows(l *scaleLab) float64 { return b.metric(l.Node, "coredns_ofpunt_flows") }

// awaitFlows waits until puntdns has so many flows in the switch.
func (b *bench) awaitFlows(l *scaleLab, want float64) {
	l.Eventually("flows", func() error {
		if got := b.flows(l); got != want {
			return fmt.Errorf("%v flows, expected %v", got, want)
		}
		return nil
	})
}

// memory is a line of /proc/PID/status, in MB.
func (b *bench) memory(pid int, key string) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	m := regexp.MustCompile(key + `:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		b.t.Fatalf("no %s of process %d", key, pid)
	}
	kb, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	return kb * 1024 / 1e6
}

// liveHeap is what is alive after a collection, in bytes.
func (b *bench) liveHeap(l *scaleLab) float64 {
	for range 2 {
		if _, _, err := l.Node.HTTPGet(context.Background(), "http://127.0.0.1:6053/debug/pprof/heap?gc=1"); err != nil {
			b.t.Fatalf("%v", err)
		}
	}
	return b.metric(l.Node, "go_memstats_heap_alloc_bytes")
}

// metric is the sum of a metric of the puntdns of a node.
func (b *bench) metric(n *lab.Node, name string) float64 {
	_, text, err := n.HTTPGet(context.Background(), "http://127.0.0.1:9153/metrics")
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	sum, found := 0., false
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == ' ' || rest[0] == '{') {
			f, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			if err != nil {
				b.t.Fatalf("%q: %v", line, err)
			}
			sum, found = sum+f, true
		}
	}
	if !found {
		b.t.Fatalf("no metric %s", name)
	}
	return sum
}
