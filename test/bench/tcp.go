// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// tcp measures local names over TCP, by connections that are kept open and by one a query,
// beside CoreDNS on the kernel's TCP in a guest.
func (b *bench) tcp() {
	n := b.newNetwork()
	for _, load := range []struct {
		what, rate, cost string // the tables are of rate and cost
		run              func(*bench, *network, peer) rate
		peers            []string
	}{
		{"TCP, kept open", tTCPOpen, tTCPOpenCPU, (*bench).keptOpen, []string{pPuntdns, pStock}},
		{"TCP, a connection a query", tTCPNew, tTCPNewCPU, (*bench).newConnections, []string{pPuntdns, pCeiling, pStock}},
	} {
		throughput, cost := b.report.table(load.rate), b.report.table(load.cost)
		for range b.rounds {
			for _, p := range b.peers(n) {
				if !slices.Contains(load.peers, p.name) {
					continue
				}
				b.with(p, func(proc *lab.Process) {
					b.dnsperfWarm(n, p)
					before := b.cpu(proc.Pid)
					r := load.run(b, n, p)
					each := float64((b.cpu(proc.Pid) - before).Nanoseconds()) / 1e3 / r.completed
					throughput.put(p.name, r.perSecond)
					cost.put(p.name, each)
					b.say("%s, %s: %.0f queries/s, %.2f µs of processor time each, %.0f lost", load.what, p.name, r.perSecond, each, r.lost)
				})
			}
		}
	}
}

// keptOpen asks by eight connections.
func (b *bench) keptOpen(n *network, p peer) rate {
	return b.dnsperf(p.asker, p.server, n.file, 200, 0, "-m", "tcp", "-c", "8")
}

// newConnections asks each query by a connection of its own, 32 at once.
func (b *bench) newConnections(n *network, p peer) rate {
	r, _, _ := b.connect(n, p, 32, b.tcpConnections)
	return r
}

// connect asks each query by a connection of its own, and returns the quantiles of their latencies, too, in µs.
func (b *bench) connect(n *network, p peer, atOnce, all int) (r rate, median, p99 float64) {
	self, err := os.Executable()
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.length+3*time.Minute)
	defer cancel()
	// A client's port stays in TIME-WAIT for a minute. To use it again before that ends
	// ovs-vswitchd 3.1 itself, by an assertion of its userspace connection tracking.
	if _, err := p.asker.Exec(ctx, "sysctl", "-qw", "net.ipv4.ip_local_port_range=1024 65535"); err != nil {
		b.t.Fatalf("%v", err)
	}
	// The kernel takes even ports for connections first. When none is left, the search for a port takes
	// most of the time.
	const evenPorts = 32000
	for {
		sockets, err := p.asker.Exec(ctx, "cat", "/proc/net/sockstat")
		if err != nil {
			b.t.Fatalf("%v", err)
		}
		if b.figure(sockets, `TCP: .* tw (\d+)`)+float64(all) <= evenPorts {
			break
		}
		time.Sleep(time.Second)
	}
	out, err := p.asker.Exec(ctx, self, "connect", net.JoinHostPort(hostPort(p.server)), n.names[0], strconv.Itoa(atOnce), strconv.Itoa(all))
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	return rate{
		perSecond: b.figure(out, `([\d.]+) per second`), completed: b.figure(out, `(\d+) answered`), lost: b.figure(out, `(\d+) failed`),
	}, b.figure(out, `median ([\d.]+)`), b.figure(out, `p99 ([\d.]+)`)
}
