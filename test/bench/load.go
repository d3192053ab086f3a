// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// rate is what a load generator saw.
type rate struct {
	perSecond float64
	completed float64
	lost      float64
	spent     float64 // processor time of the generator for a query, in µs
}

// generator makes the load.
type generator struct {
	name string
	// run asks from inside a guest, or from the node, as fast as outstanding queries allow.
	run func(b *bench, h *lab.Host, server, questions string, outstanding int) rate
}

var generators = []generator{
	{gDnsperf, func(b *bench, h *lab.Host, server, questions string, outstanding int) rate {
		return b.dnsperf(h, server, questions, outstanding, 0)
	}},
	{gOwn, (*bench).generate},
}

// loadTables are those of what is measured under load. Each has a row for each peer and generator.
type loadTables struct {
	rate string // queries/s
	// Processor time for a query, in µs: of the server, of ovs-vswitchd, of the generator.
	server, vswitchd, generator string
}

// underLoad has each generator ask a peer, whose process is proc, nil without one.
func (b *bench) underLoad(n *lab.Node, p peer, proc *lab.Process, questions string, outstanding int, t loadTables) {
	of := map[string]int{t.vswitchd: n.Daemon("ovs-vswitchd").Pid}
	switch {
	case proc != nil:
		of[t.server] = proc.Pid
	case p.daemon != "":
		of[t.server] = n.Daemon(p.daemon).Pid
	}
	for _, g := range generators {
		if p.ready != nil {
			p.ready()
		}
		before := map[string]time.Duration{}
		for table, pid := range of {
			before[table] = b.cpu(pid)
		}
		r := g.run(b, p.asker, p.server, questions, outstanding)
		row := by(p.name, g.name)
		// The order of the tables is that of their names here.
		rates, costs := b.report.table(t.rate), []string{t.server, t.vswitchd}
		rates.put(row, r.perSecond)
		for _, table := range costs {
			tab := b.report.table(table)
			if pid := of[table]; pid != 0 && r.completed > 0 {
				tab.put(row, float64((b.cpu(pid)-before[table]).Nanoseconds())/1e3/r.completed)
			}
		}
		b.report.table(t.generator).put(row, r.spent)
		b.say("%s, %s: %.0f queries/s, %.0f lost", t.rate, row, r.perSecond, r.lost)
	}
}

// dnsperf asks from inside a guest as fast as outstanding queries allow, or at
// perSecond if that is not 0. more are further options of dnsperf.
func (b *bench) dnsperf(h *lab.Host, server, questions string, outstanding int, perSecond int, more ...string) rate {
	host, port := hostPort(server)
	argv := []string{"dnsperf", "-s", host, "-p", port, "-d", questions, "-c", "4", "-q", strconv.Itoa(outstanding),
		"-l", strconv.FormatFloat(math.Ceil(b.length.Seconds()), 'f', 0, 64), "-t", "2"}
	if b.passes > 0 {
		argv = append(argv, "-n", strconv.Itoa(b.passes))
	}
	if perSecond > 0 {
		argv = append(argv, "-Q", strconv.Itoa(perSecond))
	}
	return b.rateOf(b.measured(h, append(argv, more...)...))
}

// measured runs a program that measures for as long as a measurement takes, and returns what it
// prints.
func (b *bench) measured(h *lab.Host, argv ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), b.length+time.Minute)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	out, err := h.Exec(ctx, append([]string{self, "timed"}, argv...)...)
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	return out
}

// timed is a program of its own that runs another one, and prints how much processor time that has had.
func timed(argv []string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// The lab ends this process with its group.
	if err := cmd.Run(); err != nil {
		return err
	}
	spent := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	fmt.Printf("Processor time: %d us\n", spent.Microseconds())
	return nil
}

// rateOf reads what dnsperf and our generator print, and timed.
func (b *bench) rateOf(out string) rate {
	r := rate{
		perSecond: b.figure(out, `Queries per second:\s+([\d.]+)`),
		completed: b.figure(out, `Queries completed:\s+(\d+)`),
		lost:      b.figure(out, `Queries lost:\s+(\d+)`),
	}
	r.spent = b.figure(out, `Processor time: (\d+) us`) / max(r.completed, 1)
	return r
}

// hostPort splits the address of a server.
func hostPort(server string) (host, port string) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return server, "53"
	}
	return host, port
}

func (b *bench) figure(out, expr string) float64 {
	m := regexp.MustCompile(expr).FindStringSubmatch(out)
	if m == nil {
		b.t.Fatalf("no %q in the output of dnsperf:\n%s", expr, out)
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	return f
}

// questions writes a file for dnsperf and returns its path.
func questions(l *lab.Lab, name string, names []string) string {
	var s strings.Builder
	for _, n := range names {
		fmt.Fprintf(&s, "%s A\n", n)
	}
	return l.WriteFile(name, s.String())
}

// latencies asks at a steady pace and returns how long each answer took, sorted;
// queries without an answer are left out and counted.
func (b *bench) latencies(h *lab.Host, server string, names []string, perSecond int) (took []time.Duration, lost int) {
	return b.latenciesOver("udp", h, server, names, perSecond)
}

// latenciesOver is latencies by one connection of a network, udp or tcp.
func (b *bench) latenciesOver(network string, h *lab.Host, server string, names []string, perSecond int) (took []time.Duration, lost int) {
	ctx, cancel := context.WithTimeout(context.Background(), b.length+time.Minute)
	defer cancel()
	conn, err := h.Dial(ctx, network, net.JoinHostPort(hostPort(server)))
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	defer conn.Close()
	n := min(int(b.length.Seconds()*float64(perSecond)), 1<<16)
	// A dns.Conn has a message over TCP behind its length.
	if took, err = pace(&dns.Conn{Conn: conn}, names, n, perSecond); err != nil {
		b.t.Fatalf("%v", err)
	}
	return took, n - len(took)
}

// patience is how long a stub resolver waits for an answer (resolv.conf(5), timeout).
const patience = 5 * time.Second

// pace asks n times by a connection, 65,536 at most, at a steady pace, and returns how
// long each answer took, sorted.
func pace(conn net.Conn, names []string, n, perSecond int) (took []time.Duration, err error) {
	var packed [][]byte
	for _, n := range names {
		p, err := new(dns.Msg).SetQuestion(dns.Fqdn(n), dns.TypeA).Pack()
		if err != nil {
			return nil, err
		}
		packed = append(packed, p)
	}
	sent := make([]time.Time, n)
	var mu sync.Mutex
	done := make(chan struct{})
	go func() {
		defer close(done)
		for buf := make([]byte, 2048); len(took) < n; {
			k, err := conn.Read(buf)
			now := time.Now()
			if err != nil {
				return // the deadline below
			}
			if id := int(binary.BigEndian.Uint16(buf)); k >= 12 && id < n {
				mu.Lock()
				took = append(took, now.Sub(sent[id]))
				mu.Unlock()
			}
		}
	}()
	began := time.Now()
	for i := range n {
		// Queries leave on time whatever the answers do, or a slow one would
		// hide those behind it.
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(perSecond))))
		q := packed[i%len(packed)]
		binary.BigEndian.PutUint16(q, uint16(i))
		mu.Lock()
		sent[i] = time.Now()
		mu.Unlock()
		if _, err := conn.Write(q); err != nil {
			return nil, err
		}
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	<-done
	slices.Sort(took)
	return took, nil
}

// cpu is the processor time that a process has had. /proc/PID/stat tells it in ticks of
// 10 ms, the process's clock to the nanosecond.
func (b *bench) cpu(pid int) time.Duration {
	t, err := lab.CPUTime(pid)
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	return t
}

// quantile of a sorted series, 0 for an empty one.
func quantile[T time.Duration | float64](sorted []T, q float64) T {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// median of a series.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
