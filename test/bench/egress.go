// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

const (
	// egressGuests is how many closed guests ask at once.
	egressGuests = 8
	// cachedAddresses is how many names have a long TTL.
	cachedAddresses = 100
	// mostOpen is max_addresses, the highest there is.
	mostOpen = 10000
	// webPort is the TCP port of the servers outside.
	webPort = "443"
)

// outsidePool has the addresses of the servers outside. They are public ones, or egress would not open them; no packet
// leaves the lab.
var outsidePool = netip.MustParsePrefix("60.0.0.0/12")

// egress measures what a policy of *egress* costs, and whether first packets arrive.
func (b *bench) egress() {
	n := b.newClosedNetwork()
	b.with(n.peers()[1], n.cached)
	for range b.rounds {
		for _, p := range n.peers() {
			b.with(p, func(proc *lab.Process) {
				n.newAddresses(eNewOne, p.name, proc, n.guests[:1])
				n.newAddresses(eNewAll, p.name, proc, n.guests)
			})
		}
	}
	n.restarts()
	n.manyOpenings()
	// The last, since the switch has many datapath flows after a flood.
	b.with(n.peers()[1], func(*lab.Process) { n.firstPackets() })
}

// closedNetwork has guests whose port group is closed, and servers at each address of outsidePool. The name nK.example leads to
// address number K for a second, and cK.example for an hour.
type closedNetwork struct {
	*bench
	*lab.Lab
	// guests and flooder are in the port group, and have a policy. unnamed is in the port group without a policy, open
	// has neither; both are on another switch.
	guests                 []*lab.Guest
	flooder, unnamed, open *lab.Guest
	upstream               string
	// used counts the addresses that have been asked for.
	used atomic.Uint32
}

func (b *bench) newClosedNetwork() *closedNetwork {
	n := &closedNetwork{bench: b, Lab: lab.New(b.t, lab.Options{})}
	n.used.Store(cachedAddresses)
	routed := []lab.RouterPort{{Switch: "out", MAC: "02:00:00:00:01:02", Networks: []string{"192.0.2.254/24"}}}
	for i, name := range []string{"red", "blue"} {
		n.AddSwitch(name)
		routed = append(routed, lab.RouterPort{Switch: name, MAC: fmt.Sprintf("02:00:00:00:02:%02x", i), Networks: []string{fmt.Sprintf("10.0.%d.1/24", i)}})
	}
	n.AddSwitch("out")
	n.AddRouter("r", routed...)
	guest := func(name string, network, number int) *lab.Guest {
		return n.Node.AddGuest(lab.Guest{
			Name: name, Switch: []string{"red", "blue"}[network], MAC: fmt.Sprintf("02:00:00:00:%02x:%02x", 0x10+network, number),
			Addrs: lab.Prefixes(fmt.Sprintf("10.0.%d.%d/24", network, number)), Gateway4: lab.Addr(fmt.Sprintf("10.0.%d.1", network)), PortSecurity: true,
		})
	}
	closed := []string{"flooder", "unnamed"}
	for i := range egressGuests {
		n.guests = append(n.guests, guest(fmt.Sprintf("vm%d", i), 0, 11+i))
		closed = append(closed, fmt.Sprintf("vm%d", i))
	}
	n.flooder, n.unnamed, n.open = guest("flooder", 0, 10), guest("unnamed", 1, 10), guest("open", 1, 11)
	outside := n.Node.AddGuest(lab.Guest{
		Name: "outside", Switch: "out", MAC: "02:00:00:00:00:31", Addrs: lab.Prefixes("192.0.2.1/24"), Gateway4: lab.Addr("192.0.2.254"),
	})
	if _, err := outside.Exec(context.Background(), "ip", "route", "add", "local", outsidePool.String(), "dev", "lo"); err != nil {
		b.t.Fatalf("%v", err)
	}
	outside.AcceptTCP(net.JoinHostPort("0.0.0.0", webPort))
	n.NBCTL("lr-route-add", "r", outsidePool.String(), "192.0.2.1")
	n.NBCTL(append([]string{"pg-add", "closed"}, closed...)...)
	for _, acl := range [][]string{
		{"32766", "inport == @closed && ip && pkt.mark[31] == 0", "drop"},
		{"32767", "inport == @closed && ip4.dst == " + resolver + " && (udp.dst == 53 || tcp.dst == 53)", "allow-related"},
	} {
		n.NBCTL(append([]string{"--type=port-group", "acl-add", "closed", "from-lport"}, acl...)...)
	}
	up := n.Upstream()
	up.SetHandler(dns.HandlerFunc(answerNumber))
	n.upstream = up.Addr
	n.Sync()
	return n
}

// addressOf returns an address of outsidePool by its number.
func addressOf(number uint32) net.IP {
	base := outsidePool.Addr().As4()
	return binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(base[:])+number)
}

func newName(number uint32) string { return fmt.Sprintf("n%d.example.", number) }

// answerNumber answers queries of type A by the number in the name.
func answerNumber(w dns.ResponseWriter, r *dns.Msg) {
	m := new(dns.Msg).SetReply(r)
	label, _, _ := strings.Cut(r.Question[0].Name, ".")
	header := dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}
	if strings.HasPrefix(label, "c") {
		header.Ttl = 3600
	}
	if number, err := strconv.ParseUint(strings.TrimLeft(label, "cn"), 10, 32); err == nil {
		m.Answer = append(m.Answer, &dns.A{Hdr: header, A: addressOf(uint32(number))})
	}
	_ = w.WriteMsg(m)
}

// peers are puntdns without a policy, and with one.
func (n *closedNetwork) peers() []peer {
	of := func(name, egress string) peer {
		config := n.WriteFile("Corefile."+name, fmt.Sprintf(`. {
    ofpunt br-int {
        openflow %s
        ovsdb %s
        rate off
    }
    errors
    prometheus 127.0.0.1:9153
    ovnhosts {
        southbound %s
        fallthrough
    }
    %s
    cache
    forward . %s
}
`, n.Node.OpenFlow, n.Node.OVSDB, n.SB, egress, n.upstream))
		return peer{name: name, asker: n.guests[0].Host, server: resolver, start: func() *lab.Process {
			return n.serve(n.Node.Host, "flows are in place", n.puntdns, "-conf", config)
		}}
	}
	return []peer{
		of(pPuntdns, ""),
		of(pEgress, `egress {
        max_addresses `+strconv.Itoa(mostOpen)+`
        policy ofpunt/switch red {
            allow *.example
        }
    }`),
	}
}

// turns is how often each guest has its turn in a round of cached. With 25 turns the median of p99 differs by a tenth from
// run to run.
const turns = 20

// cached measures answers from the cache, whose addresses are open for the guest with a policy. The guests have short
// turns with one process, since the pace of a machine changes within seconds.
func (n *closedNetwork) cached(proc *lab.Process) {
	var names []string
	for i := range cachedAddresses {
		names = append(names, fmt.Sprintf("c%d.example", i))
	}
	file := questions(n.Lab, "cached", names)
	length := n.length
	n.length = min(length, time.Second)
	defer func() { n.length = length }()
	vswitchd := n.Node.Daemon("ovs-vswitchd").Pid
	guests := []struct {
		row string
		*lab.Guest
	}{{eNoPolicy, n.unnamed}, {ePolicy, n.guests[0]}}
	for _, g := range guests {
		n.dnsperf(g.Host, resolver, file, 10, 1000)
	}
	for range n.rounds * turns {
		slices.Reverse(guests) // takes turns in being the first
		for _, g := range guests {
			switched := n.cpu(vswitchd)
			var r rate
			n.rate(eCached, g.row, proc, func() rate {
				r = n.dnsperf(g.Host, resolver, file, 100, 0)
				return r
			})
			n.put(eCached+eSwitchCPU, g.row, microseconds(n.cpu(vswitchd)-switched)/r.completed)
			n.latency(eCached, g.row, "udp", peer{asker: g.Host, server: resolver}, names)
		}
	}
}

// newAddresses has guests ask for names with a new address each. Each guest has one query outstanding. A fast machine
// ends early, as a guest can open mostOpen addresses a minute.
func (n *closedNetwork) newAddresses(what, row string, proc *lab.Process, guests []*lab.Guest) {
	vswitchd := n.Node.Daemon("ovs-vswitchd").Pid
	ours, switched := n.cpu(proc.Pid), n.cpu(vswitchd)
	began := time.Now()
	most := mostOpen / (4*n.rounds + 1) // vm0 does it four times a round: alone, with the others, and twice in manyOpenings
	took := n.each(guests, n.length, most, func(c *resolution) (time.Duration, error) {
		return c.resolve(n.used.Add(1))
	})
	length, count := time.Since(began).Seconds(), float64(len(took))
	ours, switched = n.cpu(proc.Pid)-ours, n.cpu(vswitchd)-switched
	n.put(what+bRate, row, count/length)
	n.put(what+bCPU, row, microseconds(ours)/count)
	n.put(what+eSwitchCPU, row, microseconds(switched)/count)
	n.put(what+eMedian, row, microseconds(quantile(took, .5)))
	n.put(what+eP99, row, microseconds(quantile(took, .99)))
}

// each has guests do something beside each other, each again and again for a time, or most times. It returns how long each
// took, sorted.
func (n *closedNetwork) each(guests []*lab.Guest, length time.Duration, most int, do func(*resolution) (time.Duration, error)) (took []time.Duration) {
	var mu sync.Mutex
	var group sync.WaitGroup
	var failed error
	end := time.Now().Add(length)
	for _, g := range guests {
		conn, err := g.Dial(context.Background(), "udp", net.JoinHostPort(resolver, "53"))
		if err != nil {
			n.t.Fatalf("%v", err)
		}
		defer conn.Close()
		group.Go(func() {
			c := &resolution{guest: g, conn: conn}
			for i := 0; i < most && time.Now().Before(end); i++ {
				t, err := do(c)
				mu.Lock()
				if err != nil {
					failed = err
				} else {
					took = append(took, t)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if failed != nil {
		n.t.Fatalf("%v", failed)
	}
	slices.Sort(took)
	return took
}

// resolution is a guest that asks by one socket.
type resolution struct {
	guest *lab.Guest
	conn  net.Conn
	// within bounds the wait for an answer; 0 is patience.
	within time.Duration
	buf    [512]byte
}

// resolve asks for the name of a number, and returns after which time the answer with its address has come.
func (r *resolution) resolve(number uint32) (time.Duration, error) {
	q := new(dns.Msg).SetQuestion(newName(number), dns.TypeA)
	packed, err := q.Pack()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	_ = r.conn.SetDeadline(began.Add(cmp.Or(r.within, patience))) // fails for a closed connection alone
	if _, err := r.conn.Write(packed); err != nil {
		return 0, err
	}
	for {
		k, err := r.conn.Read(r.buf[:])
		if err != nil {
			return 0, fmt.Errorf("%s: %w", q.Question[0].Name, err)
		}
		took := time.Since(began)
		var m dns.Msg
		if err := m.Unpack(r.buf[:k]); err != nil {
			return 0, err
		}
		if m.Id != q.Id {
			continue // late
		}
		if len(m.Answer) != 1 {
			return 0, fmt.Errorf("%s: %s without an address", q.Question[0].Name, dns.RcodeToString[m.Rcode])
		}
		return took, nil
	}
}
