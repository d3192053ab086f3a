// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/label"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punttest"
	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// A limit is on one guest and on all that have it, and no guest has more than its network leaves
// free.
func TestAdmissionByLimit(t *testing.T) {
	type ask struct {
		guest account
		limit *guests.Limit
		want  string
	}
	few, many := &guests.Limit{Name: "few", Concurrent: 4, ConcurrentGuest: 3}, &guests.Limit{Name: "many", Concurrent: 16, ConcurrentGuest: 16}
	connections := &guests.Limit{Name: "connections", Connections: 1}
	red1, red2, blue, green := accountAt(1, 1), accountAt(1, 2), accountAt(2, 1), accountAt(3, 1)
	times := func(n int, a ask) (all []ask) {
		for range n {
			all = append(all, a)
		}
		return all
	}
	for _, tt := range []struct {
		name  string
		steps [][]ask
	}{
		{"of one guest, and of all", [][]ask{
			times(3, ask{blue, few, ""}), {{blue, few, metric.ReasonPortLimit}},
			{{red1, few, ""}, {red2, few, metric.ReasonLimit}, {blue, few, metric.ReasonPortLimit}},
			times(2, ask{red2, nil, ""}), {{red2, nil, metric.ReasonPortLimit}},
		}},
		{"a network leaves others their part", [][]ask{
			times(8, ask{red1, many, ""}), {{red1, many, metric.ReasonOverload}, {red2, nil, metric.ReasonOverload}},
			times(4, ask{blue, many, ""}), {{blue, many, metric.ReasonOverload}},
			times(2, ask{green, nil, ""}), {{green, nil, metric.ReasonPortLimit}},
		}},
		{"none on queries", [][]ask{times(2, ask{red1, connections, ""}), {{red1, connections, metric.ReasonPortLimit}}}},
		{"more than a guest has in flight by now", [][]ask{times(8, ask{red1, many, ""}), {{red1, few, metric.ReasonPortLimit}, {red1, nil, metric.ReasonPortLimit}, {blue, few, ""}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAdmission(16)
			var in []*Exchange
			for i, steps := range tt.steps {
				for j, s := range steps {
					x := ofGuest(s.guest)
					x.from.limit = s.limit
					if got := a.admit(x, 2); got != s.want {
						t.Fatalf("step %d, %d: %q, want %q", i, j, got, s.want)
					} else if got == "" {
						in = append(in, x)
					}
				}
			}
			for _, x := range in {
				a.release(x)
			}
			a.counts.sweep()
			if c := a.counts; len(c.guests)+len(c.networks)+len(c.limits) > 0 || c.all.Load() != 0 {
				t.Errorf("counted with nothing in flight: %v %v %v, %d", c.guests, c.networks, c.limits, c.all.Load())
			}
		})
	}
}

// limitRig is a channel whose guests have the OpenFlow ports 5, 6 and 7 and are in one network
// each, and whose chain waits.
type limitRig struct {
	t       *testing.T
	channel *Channel
	peer    net.Conn
	release chan struct{} // lets the queries in the chain go
}

func newLimitRig(t *testing.T, stack *tcp.Stack) *limitRig {
	r := &limitRig{t: t, release: make(chan struct{})}
	r.channel, r.peer = newChannelOf(t, func() {}, stack)
	r.plug("a", "b", "c")
	t.Cleanup(func() { close(r.release) })
	return r
}

// plug has the ports 5 and on be those of guests with these names.
func (r *limitRig) plug(names ...string) {
	var v vswitch.View
	for i, name := range names {
		v.Interfaces = append(v.Interfaces, vswitch.Interface{UUID: name, Name: "tap" + name, OFPort: uint32(5 + i), IfaceID: name, NetworkID: name})
	}
	view := ports.NewView(v, r.channel.intake.bridge.Ports.View())
	view.SetDrained()
	r.channel.intake.bridge.Ports.Set(view)
}

// serve has a server answer that gives a guest the limit which has its name, and one query to
// the others.
func (r *limitRig) serve(limits ...guests.Limit) *Server { return r.serveWith(nil, limits...) }

// serveWith is serve with a configuration that change has altered, unless it is nil.
func (r *limitRig) serveWith(change func(*Config), limits ...guests.Limit) *Server {
	return serve(r.channel.intake, func(_ context.Context, w dns.ResponseWriter, m *dns.Msg) {
		<-r.release
		_ = w.WriteMsg(new(dns.Msg).SetReply(m))
	}, func(c *Config) {
		rules := guestConfig()
		for _, l := range limits {
			l.Label, l.Value = label.Port, l.Name
			rules.Limits = append(rules.Limits, l)
		}
		c.ConcurrentGuest, c.Guests = 1, guests.NewRules(rules)
		if change != nil {
			change(c)
		}
	})
}

// puntFrom is a packet-in of a frame from an OpenFlow port.
func puntFrom(port byte, frame []byte) []byte {
	in := []byte{0x80, 0, 0, 4, 0, 0, 0}
	return bytes.Replace(punttest.Punt(frame), append(in, 5), append(in, port), 1)
}

// admitted sends queries from a port until one is refused, at most n, and returns how many were not.
func (r *limitRig) admitted(port byte, n int) (admitted int) {
	r.t.Helper()
	for ; admitted < n; admitted++ {
		before := r.channel.Pending()
		refused := packetIns(r.t, metric.Refused, metric.ReasonPortLimit) + packetIns(r.t, metric.Refused, metric.ReasonLimit)
		send(r.t, r.peer, puntFrom(port, punttest.QueryFrame()))
		now := func() int {
			return packetIns(r.t, metric.Refused, metric.ReasonPortLimit) + packetIns(r.t, metric.Refused, metric.ReasonLimit)
		}
		testkit.Eventually(r.t, "admitted or refused", func() bool { return r.channel.Pending() > before || now() > refused })
		if now() > refused {
			packetOut(r.t, r.peer) // SERVFAIL
			return admitted
		}
	}
	return admitted
}

func limitRefused(t *testing.T, limit, property string) int {
	t.Helper()
	return int(testkit.Value(t, metric.LimitRefused.WithLabelValues(bridgeName, limit, property)))
}

// A guest's next query has the limit that it has by then, whether the ports of the bridge or the Corefile
// have changed, and what is in flight counts on.
func TestLimitOfGuest(t *testing.T) {
	r := newLimitRig(t, nil)
	refused := limitRefused(t, "a", metric.PropertyConcurrent)
	expect := func(what string, port byte, want, counted int) {
		t.Helper()
		if got := r.admitted(port, 10); got != want {
			t.Errorf("%s: %d more queries of port %d, want %d", what, got, port, want)
		}
		if refused += counted; limitRefused(t, "a", metric.PropertyConcurrent) != refused {
			t.Errorf("%s: %d refused by the limit, want %d", what, limitRefused(t, "a", metric.PropertyConcurrent), refused)
		}
	}
	r.serve(guests.Limit{Name: "a", Concurrent: 3, ConcurrentGuest: 3})
	expect("a limit of its own", 5, 3, 1)
	expect("that of all", 6, 1, 0)
	r.serve(guests.Limit{Name: "b", Concurrent: 3, ConcurrentGuest: 2}, guests.Limit{Name: "a", Concurrent: 5, ConcurrentGuest: 5})
	expect("a higher limit after a reload", 5, 2, 1)
	expect("a limit of its own after a reload", 6, 1, 0)
	r.serve(guests.Limit{Name: "a", Concurrent: 2, ConcurrentGuest: 2})
	expect("a lower limit after a reload", 5, 0, 1)
	// Of all guests that have the limit, five queries are in flight.
	r.plug("b", "a")
	expect("another guest has the port", 6, 0, 1)
	expect("the guest has the port of another", 5, 1, 0)
}

// A limit on TCP connections is on those that begin, and tells what it has refused.
func TestLimitOfGuestOnConnections(t *testing.T) {
	stack, err := tcp.New()
	if err != nil {
		t.Fatal(err)
	}
	r := newLimitRig(t, stack)
	open := func(port byte, from uint16) (begun bool) {
		t.Helper()
		f := punttest.Segment(t, uint32(from), 0, punttest.SYN, nil)
		// The port of the guest, and the checksum over it (RFC 1624).
		const srcPort, checksum = 34, 34 + 16
		sum := uint32(^binary.BigEndian.Uint16(f[checksum:])) + uint32(^binary.BigEndian.Uint16(f[srcPort:])) + uint32(from)
		binary.BigEndian.PutUint16(f[srcPort:], from)
		for sum > 0xffff {
			sum = sum>>16 + sum&0xffff
		}
		binary.BigEndian.PutUint16(f[checksum:], ^uint16(sum))
		taken := packetIns(t, metric.Taken, metric.ReasonSegment)
		dropped := packetIns(t, metric.Dropped, metric.ReasonConnections)
		send(t, r.peer, puntFrom(port, f))
		testkit.Eventually(t, fmt.Sprintf("SYN from %d taken or dropped", from), func() bool {
			begun = packetIns(t, metric.Taken, metric.ReasonSegment) > taken
			return begun || packetIns(t, metric.Dropped, metric.ReasonConnections) > dropped
		})
		return begun
	}
	next := uint16(2000)
	opened := func(port byte, n int) (begun int) {
		t.Helper()
		for range n {
			if next++; open(port, next) {
				begun++
			}
		}
		return begun
	}
	for i, step := range []struct {
		limits            []guests.Limit
		port              byte
		asked, want, told int
	}{
		{[]guests.Limit{{Name: "a", Connections: 3}}, 5, 5, 3, 2},
		{[]guests.Limit{{Name: "a", Connections: 3}}, 6, tcp.MaxOfOwner + 1, tcp.MaxOfOwner, 0},
		{[]guests.Limit{{Name: "a", Connections: 2}}, 5, 1, 0, 1},
		{[]guests.Limit{{Name: "a", Connections: 70}}, 5, 70, 67, 3},
		{[]guests.Limit{{Name: "a", Concurrent: 1, ConcurrentGuest: 1}}, 5, 1, 0, 0},
	} {
		r.serve(step.limits...)
		before := limitRefused(t, "a", metric.PropertyConnections)
		got := opened(step.port, step.asked)
		if told := limitRefused(t, "a", metric.PropertyConnections) - before; got != step.want || told != step.told {
			t.Errorf("step %d: %d of %d begun, want %d; %d refused by the limit, want %d", i, got, step.asked, step.want, told, step.told)
		}
	}
}
