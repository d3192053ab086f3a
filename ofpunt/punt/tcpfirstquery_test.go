// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// overTCP is a message as TCP carries it.
func overTCP(m string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...)
}

// answering is a chain that answers, and says by which transport the query has come.
func answering(by chan<- transport) chain {
	return func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) {
		x, _ := FromContext(ctx)
		_ = w.WriteMsg(new(dns.Msg).SetReply(r))
		by <- x.transport
	}
}

// answerTo is the answer that has to come over TCP, in one segment that acknowledges so much.
func answerTo(t *testing.T, peer net.Conn, acknowledged uint32) *dns.Msg {
	t.Helper()
	for {
		s, ok := segmentTo(t, peer, 20*time.Second)
		if !ok {
			t.Fatal("no answer")
		}
		b := s.Segment[int(s.Segment[12]>>4)*4:]
		if len(b) == 0 {
			continue // a mere acknowledgement
		}
		if got := binary.BigEndian.Uint32(s.Segment[8:]); got != acknowledged {
			t.Errorf("the answer acknowledges %d, want %d", got, acknowledged)
		}
		m := new(dns.Msg)
		if len(b) < 2 || int(binary.BigEndian.Uint16(b)) != len(b)-2 {
			t.Fatalf("%x is no message", b)
		}
		if err := m.Unpack(b[2:]); err != nil {
			t.Fatal(err)
		}
		return m
	}
}

// longQueryOf is a query of size bytes: with one option of EDNS for what it lacks.
func longQueryOf(size int) string {
	m := new(dns.Msg).SetQuestion("a.", dns.TypeA)
	m.Id = 0x1234
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_LOCAL{Code: 65001, Data: make([]byte, size-m.Len()-4)}}
	b, err := m.Pack()
	if err != nil || len(b) != size {
		panic(fmt.Sprintf("%d bytes, %v", len(b), err))
	}
	return string(b)
}

// The first query of a connection, if it comes whole and alone, needs no connection: neither where the
// reader runs it, nor where a worker does.
func TestFirst(t *testing.T) {
	const other = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01b\x00\x00\x01\x00\x01"
	for _, tt := range []struct {
		name    string
		payload []byte
		queries int
		isFirst bool
		most    int // queries of a connection
	}{
		{"whole", overTCP(punttest.Query), 1, true, -1},
		{"of a name that is not known", overTCP(other), 1, true, -1},
		{"whole, of two that the connection may have", overTCP(punttest.Query), 1, true, 2},
		{"the only one that the connection may have", overTCP(punttest.Query), 1, false, 1},
		{"two", append(overTCP(punttest.Query), overTCP(other)...), 2, false, -1},
		{"a long one", overTCP(longQueryOf(longQuery + 1)), 1, false, -1},
		{"one that is not long yet", overTCP(longQueryOf(longQuery)), 1, true, -1},
		{"more than one", append(overTCP(punttest.Query), 0), 1, false, -1},
	} {
		for _, fromMemory := range []bool{false, true} {
			name := tt.name + ", by a worker"
			if fromMemory {
				name = tt.name + ", by the reader"
			}
			t.Run(name, func(t *testing.T) {
				c, peer := tcpChannel(t)
				c.intake.done.Go(c.intake.accept)
				by := make(chan transport, 2)
				srv := serve(c.intake, answering(by), func(c *Config) { c.FromMemory, c.MaxTCPQueries = fromMemory, tt.most })
				answered := func() int {
					return int(testkit.Value(t, metric.TCPQueries.WithLabelValues(bridgeName, metric.Answered, metric.ReasonChain)))
				}
				before := answered()
				next := begin(t, peer)
				send(t, peer, punttest.Punt(punttest.Segment(t, 8, next, punttest.ACK, tt.payload)))
				for range tt.queries {
					if _, isFirst := (<-by).(*firstQuery); isFirst != tt.isFirst {
						t.Errorf("it has come without a connection: %v", isFirst)
					}
				}
				if tt.queries == 1 {
					if m := answerTo(t, peer, 8+uint32(len(tt.payload))); m.Id != 0x1234 || m.Rcode != dns.RcodeSuccess {
						t.Errorf("answer %v", m)
					}
				}
				testkit.Eventually(t, "counted", func() bool { return answered()-before == tt.queries && srv.InFlight() == 0 })
				if n := c.Pending(); n != 0 {
					t.Errorf("%d queries are pending", n)
				}
			})
		}
	}
}

// holds is a chain that says by which transport a query has come, and answers once release is closed.
func holds(by chan<- transport, release <-chan struct{}) chain {
	return func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) {
		x, _ := FromContext(ctx)
		by <- x.transport
		<-release
		_ = w.WriteMsg(new(dns.Msg).SetReply(r))
	}
}

// A first query counts for the limits as those of a connection do, and gets the same error.
func TestFirstOverLimit(t *testing.T) {
	c, peer := tcpChannel(t)
	by, release := make(chan transport, 1), make(chan struct{})
	srv := serve(c.intake, holds(by, release), func(c *Config) { c.ConcurrentGuest = 1 })
	turned := func() int {
		return int(testkit.Value(t, metric.TCPQueries.WithLabelValues(bridgeName, metric.Refused, metric.ReasonPortLimit)))
	}
	before := turned()
	query := overTCP(punttest.Query)
	next := begin(t, peer)
	send(t, peer, punttest.Punt(punttest.Segment(t, 8, next, punttest.ACK, query)))
	<-by
	// The same ports again: the first connection is reset.
	send(t, peer, punttest.Punt(punttest.Segment(t, 8+uint32(len(query)), next, punttest.RST, nil)))
	next = begin(t, peer)
	send(t, peer, punttest.Punt(punttest.Segment(t, 8, next, punttest.ACK, query)))
	if m := answerTo(t, peer, 8+uint32(len(query))); m.Rcode != dns.RcodeServerFailure {
		t.Errorf("rcode %s", dns.RcodeToString[m.Rcode])
	}
	if got := turned() - before; got != 1 {
		t.Errorf("%d are turned away", got)
	}
	close(release)
	testkit.Eventually(t, "out of flight", func() bool { return srv.InFlight() == 0 })
}

// A connection that goes on knows of its first query: what it may have, what was promised, and that it is
// not done while that is worked on.
func TestFirstIsHandedOver(t *testing.T) {
	c, peer := tcpChannel(t)
	by, release := make(chan transport, 3), make(chan struct{})
	srv := serve(c.intake, holds(by, release), func(c *Config) { c.MaxTCPQueries = 3 })
	c.intake.done.Go(c.intake.accept)
	query := overTCP(queryOPT + "\x04\x00\x0b\x00\x00")
	next := begin(t, peer)
	put := func(at int) {
		send(t, peer, punttest.Punt(punttest.Segment(t, 8+uint32(at*len(query)), next, punttest.ACK, query)))
	}
	put(0)
	f := (<-by).(*firstQuery)
	if got := f.promise(10 * time.Second); got != 100 {
		t.Errorf("promised %d", got)
	}
	put(1)
	m := (<-by).(*message)
	if m.connection.promised != 100 || len(m.connection.open) != 2 || m.last {
		t.Errorf("promised %d, open %d, last %v", m.connection.promised, len(m.connection.open), m.last)
	}
	if got := f.promise(20 * time.Second); got != 200 || m.connection.promised != 200 {
		t.Errorf("promised %d, of the connection %d", got, m.connection.promised)
	}
	put(2)
	if m := (<-by).(*message); !m.last {
		t.Error("the third of three is not the last")
	}
	close(release)
	testkit.Eventually(t, "all answered", func() bool { return srv.InFlight() == 0 && f.users.Load() == 0 })
}

// One that was dealt with before has the connection idle from then on.
func TestFirstHandedOverBehindItsEnd(t *testing.T) {
	at := time.Now().Add(-time.Second)
	f, c := &firstRecord{promised: 7, dealtWith: at}, newConnection(nil, nil)
	f.handOver(c)
	if c.before != 1 || c.promised != 7 || len(c.open) != 0 || !c.active.Equal(at) || f.connection != nil {
		t.Errorf("before %d, promised %d, open %d, active %s", c.before, c.promised, len(c.open), c.active)
	}
}

// What a first query took goes once it is answered, whether its connection goes on or not: the
// connection may stay for long, and the query counts for no limit any more.
func TestFirstIsNotKept(t *testing.T) {
	for _, goesOn := range []bool{false, true} {
		t.Run(fmt.Sprintf("goes on %v", goesOn), func(t *testing.T) {
			c, peer := tcpChannel(t)
			c.intake.done.Go(c.intake.accept)
			asked := make(chan weak.Pointer[Exchange], 2)
			srv := serve(c.intake, func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) {
				x, _ := FromContext(ctx)
				_ = w.WriteMsg(new(dns.Msg).SetReply(r))
				asked <- weak.Make(x)
			}, nil)
			query := overTCP(punttest.Query)
			next := begin(t, peer)
			send(t, peer, punttest.Punt(punttest.Segment(t, 8, next, punttest.ACK, query)))
			first := <-asked
			answerTo(t, peer, 8+uint32(len(query)))
			if goesOn {
				send(t, peer, punttest.Punt(punttest.Segment(t, 8+uint32(len(query)), next, punttest.ACK, query)))
				<-asked
			}
			testkit.Eventually(t, "out of flight", func() bool { return srv.InFlight() == 0 })
			testkit.Eventually(t, "free", func() bool { runtime.GC(); return first.Value() == nil })
			if n := c.intake.Connections(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// At the deadline a first query is answered on a goroutine of its own, unless it has ended.
func TestFirstAtDeadline(t *testing.T) {
	c, peer := tcpChannel(t)
	by, release := make(chan transport, 1), make(chan struct{})
	serve(c.intake, func(ctx context.Context, _ dns.ResponseWriter, _ *dns.Msg) {
		x, _ := FromContext(ctx)
		by <- x.transport
		<-release
	}, nil)
	send(t, peer, punttest.Punt(punttest.Segment(t, 8, begin(t, peer), punttest.ACK, overTCP(punttest.Query))))
	f := (<-by).(*firstQuery)
	began, end := make(chan struct{}), make(chan struct{})
	f.atDeadline(func() { close(began); <-end })
	<-began
	close(release)
	testkit.Eventually(t, "left by its chain", func() bool { return f.users.Load() == 1 })
	close(end)
	testkit.Eventually(t, "at its end", func() bool { return f.users.Load() == 0 })
	f.atDeadline(func() { t.Error("an answer behind the end") })
}

// What a peer is sent goes by the address and the tag of its own last segment, though others have
// come since.
func TestPeers(t *testing.T) {
	c, _ := tcpChannel(t)
	s := c.intake.server.Load()
	of := func(inPort uint32, mac byte, sequence uint32) *peer {
		t.Helper()
		b := punttest.Segment(t, sequence, 0, punttest.ACK, nil)
		b[11] = mac
		p := new(packet)
		p.init(c, s, &openflow.PacketIn{InPort: inPort, Data: b}, placement.Nowhere)
		var segment frame.TCP
		if err := segment.Decode(b); err != nil {
			t.Fatal(err)
		}
		p.setEnds(segment.Ends, placement.ProtoTCP)
		return c.peers.of(p)
	}
	first := of(5, 1, 1)
	if again := of(5, 1, 2); again != first {
		t.Error("the same peer is made twice")
	}
	for _, other := range []*peer{of(5, 2, 1), of(6, 1, 1), of(5, 1, 1)} {
		if other == first || (other.key == first.key) != (other.sender == first.sender) {
			t.Errorf("%+v is taken for %+v", other.sender, first.sender)
		}
		if want := outputActions(c.conn, other.tag, other.track()...); !bytes.Equal(other.actions, want) {
			t.Errorf("actions %x, want %x", other.actions, want)
		}
	}
}
