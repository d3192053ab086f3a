// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/test/lab"
)

// firstPackets has guests resolve and connect at once, closed ones and an open one, alone and beside a closed guest that sends
// to addresses outside as fast as it can.
func (n *closedNetwork) firstPackets() {
	self, err := os.Executable()
	if err != nil {
		n.t.Fatalf("%v", err)
	}
	for _, flooded := range []bool{false, true} {
		kinds := []*connecting{
			{row: eClosed, guests: n.guests[:4]},
			{row: eOpen, guests: []*lab.Guest{n.open}},
		}
		for range n.rounds {
			var flood *lab.Process
			if flooded {
				flood = n.launch(n.flooder.Host, "flooding", self, "flood-addresses", outsidePool.String())
			}
			for _, c := range kinds {
				n.connect(c)
			}
			if flooded {
				if err := flood.Stop(); err != nil {
					n.t.Fatalf("%v", err)
				}
				n.say("the flood: %.0f packets", n.figure(flood.Log(), `(\d+) packets left`))
			}
		}
		for _, c := range kinds {
			row := c.row
			if flooded {
				row += eBesideFlood
			}
			n.put(eConnections, row, float64(c.all.Load()))
			n.put(eAgain, row, float64(c.again.Load()))
			n.put(eFailed, row, float64(c.failed.Load()))
		}
	}
}

// connecting are guests that connect, with what has come of it.
type connecting struct {
	row    string
	guests []*lab.Guest
	// all counts the connections, again those whose SYN the kernel has sent again, and failed the tries that failed.
	all, again, failed atomic.Int64
}

// connect has guests resolve and connect. Before each try they send a SYN to the next address, which is refused if they are
// closed: the switch must not take the drop of that SYN for the address that is then opened.
func (n *closedNetwork) connect(c *connecting) {
	took := n.each(c.guests, n.length*3/4, math.MaxInt, func(r *resolution) (time.Duration, error) {
		number := n.used.Add(2)
		began := time.Now()
		refused, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
		if conn, _, err := connectTo(refused, r.guest, number-1); err == nil {
			conn.Close()
		}
		cancel()
		if _, err := r.resolve(number); err != nil {
			c.failed.Add(1)
			return time.Since(began), nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		defer cancel()
		conn, again, err := connectTo(ctx, r.guest, number)
		if err != nil {
			c.failed.Add(1)
			return time.Since(began), nil
		}
		conn.Close()
		c.all.Add(1)
		if again > 0 {
			c.again.Add(1)
		}
		return time.Since(began), nil
	})
	n.say("%s: %d tries, median %s, p99 %s", c.row, len(took), quantile(took, .5), quantile(took, .99))
}

// connectTo connects with the address of a number, and returns how many packets the kernel has sent again.
func connectTo(ctx context.Context, g *lab.Guest, number uint32) (c net.Conn, again int, err error) {
	c, err = g.Dial(ctx, "tcp4", net.JoinHostPort(addressOf(number).String(), webPort))
	if err != nil {
		return nil, 0, err
	}
	raw, err := c.(syscall.Conn).SyscallConn()
	if err == nil {
		var info *unix.TCPInfo
		controlErr := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO) })
		if err = errors.Join(controlErr, err); err == nil {
			return c, int(info.Total_retrans), nil
		}
	}
	c.Close()
	return nil, 0, err
}

// addressFlooder is a program that sends packets to random addresses of a prefix as fast as it can. At SIGTERM it prints how
// many packets left.
func addressFlooder(args []string) error {
	if len(args) != 1 {
		return errors.New("flood-addresses: expected PREFIX")
	}
	prefix, err := netip.ParsePrefix(args[0])
	if err != nil {
		return err
	}
	conn, err := net.ListenPacket("udp4", ":0")
	if err != nil {
		return err
	}
	defer conn.Close()
	sendUntilTerm("packets", func() error {
		number := rand.Uint32N(1 << (32 - prefix.Bits()))
		_, err := conn.WriteTo([]byte("x"), &net.UDPAddr{IP: addressOf(number), Port: 9})
		return err
	})
	return nil
}

// manyOpenings measures puntdns with a switch that has the openings of many guests.
func (n *closedNetwork) manyOpenings() {
	many := fmt.Sprintf("%d openings of %d guests", n.openings, n.openingGuests)
	file := n.writeOpenings()
	p := n.peers()[1]
	length := n.length
	n.length /= 2
	defer func() { n.length = length }()
	for range n.rounds {
		for _, row := range []string{eNoOpenings, many} {
			n.Node.OFCTL("del-flows", lab.Bridge, "table=203")
			if row == many {
				n.Node.OFCTL("--bundle", "add-flows", lab.Bridge, file)
			}
			served := n.untilServed()
			n.with(p, func(proc *lab.Process) {
				n.put(eServes, row, milliseconds(<-served))
				n.put(eHWM, row, n.memory(proc.Pid, "VmHWM"))
				n.newAddresses(eMany, row, proc, n.guests[:1])
				if got, least := n.metric(n.Node, "coredns_ofpunt_open_destinations"), float64(n.openings); row == many && got < least {
					n.t.Fatalf("%v openings, expected %v", got, least)
				}
			})
		}
	}
}

// untilServed asks from a guest, once every 5 ms, and returns where the time until the first answer will be.
func (n *closedNetwork) untilServed() <-chan time.Duration {
	began, answered := time.Now(), make(chan time.Duration, 1)
	conn, err := n.guests[0].Dial(context.Background(), "udp", net.JoinHostPort(resolver, "53"))
	if err != nil {
		n.t.Fatalf("%v", err)
	}
	r := &resolution{guest: n.guests[0], conn: conn, within: 5 * time.Millisecond}
	go func() {
		defer conn.Close()
		for tick := time.NewTicker(r.within); ; <-tick.C {
			if _, err := r.resolve(n.used.Add(1)); err == nil {
				answered <- time.Since(began)
				return
			}
		}
	}()
	return answered
}

// writeOpenings writes a file of flows for ovs-ofctl, and returns its path. The guests are patch ports without a peer, and
// their flows are one that puntdns has installed, for other ports and addresses.
func (n *closedNetwork) writeOpenings() string {
	var model string
	n.with(n.peers()[1], func(*lab.Process) {
		n.each(n.guests[:1], time.Millisecond, math.MaxInt, func(r *resolution) (time.Duration, error) { return r.resolve(n.used.Add(1)) })
		for line := range strings.Lines(n.Node.OFCTL("--no-stats", "dump-flows", lab.Bridge, "table=203")) {
			if strings.Contains(line, "note:") {
				model = strings.TrimSpace(line)
			}
		}
	})
	if model == "" {
		n.t.Fatalf("no opening in the switch")
	}
	var nb, vs []string
	for i := range n.openingGuests {
		port := fmt.Sprintf("patch%d", i)
		nb = append(nb, "--", "lsp-add", "red", port, "--", "lsp-set-addresses", port, fmt.Sprintf("02:00:00:00:20:%02x 10.0.0.%d", i, 100+i))
		vs = append(vs, "--", "add-port", lab.Bridge, port, "--", "set", "Interface", port, "type=patch", "options:peer=none", "external_ids:iface-id="+port)
	}
	n.NBCTL(nb[1:]...)
	n.Node.VSCTL(vs[1:]...)
	n.Sync()
	key, address := regexp.MustCompile(`reg14=0x[0-9a-f]+`), regexp.MustCompile(`nw_dst=[0-9.]+`)
	var text strings.Builder
	for i := range n.openingGuests {
		number := strings.TrimSpace(n.SBCTL("--bare", "--columns=tunnel_key", "find", "Port_Binding", fmt.Sprintf("logical_port=patch%d", i)))
		of := key.ReplaceAllString(model, "reg14="+number)
		for range n.openings / n.openingGuests {
			text.WriteString(address.ReplaceAllString(of, "nw_dst="+addressOf(n.used.Add(1)).String()) + "\n")
		}
	}
	return n.WriteFile("openings", text.String())
}
