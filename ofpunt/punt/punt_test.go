// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovntest"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// reply answers a query without data.
func reply(_ context.Context, w dns.ResponseWriter, r *dns.Msg) {
	_ = w.WriteMsg(new(dns.Msg).SetReply(r))
}

// send has the switch send messages in one write.
func send(t *testing.T, peer net.Conn, messages ...[]byte) {
	t.Helper()
	if _, err := peer.Write(slices.Concat(messages...)); err != nil {
		t.Fatal(err)
	}
}

// packetOut is the next one to the switch.
func packetOut(t *testing.T, peer net.Conn) []byte {
	t.Helper()
	_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
	room := make([]byte, 1<<16)
	n, err := peer.Read(room)
	if err != nil {
		t.Fatal(err)
	}
	return room[:n]
}

// arpFrame asks who has the resolver address.
func arpFrame() []byte {
	b := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0x11, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1}
	b = append(b, 2, 0, 0, 0, 0, 0x11, 10, 0, 0, 11)
	return append(b, 0, 0, 0, 0, 0, 0, 169, 254, 169, 254)
}

// An answer goes nowhere whose OpenFlow port has passed to another guest meanwhile, nor does
// the one at the deadline.
func TestAnswerToPortOfAnother(t *testing.T) {
	segment := func(t *testing.T, peer net.Conn) []byte {
		query := append(binary.BigEndian.AppendUint16(nil, uint16(len(punttest.Query))), punttest.Query...)
		return punttest.Segment(t, 8, begin(t, peer), punttest.ACK, query)
	}
	for _, tt := range []struct {
		name    string
		tcp     bool
		expires bool
	}{{"UDP", false, false}, {"UDP, deadline", false, true}, {"TCP", true, false}, {"TCP, deadline", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			c, peer := tcpChannel(t)
			c.intake.done.Go(c.intake.accept)
			inChain, release := make(chan struct{}), make(chan struct{})
			s := serve(c.intake, func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) {
				close(inChain)
				<-release
				reply(ctx, w, r)
			}, nil)
			count := func() int {
				if tt.tcp {
					return int(testkit.Value(t, metric.TCPQueries.WithLabelValues(bridgeName, metric.Dropped, metric.ReasonPort)))
				}
				return packetIns(t, metric.Dropped, metric.ReasonPort)
			}
			before := count()
			f := punttest.QueryFrame()
			if tt.tcp {
				f = segment(t, peer)
			}
			send(t, peer, punttest.Punt(f))
			<-inChain
			guestIs(c.intake, "2")
			if tt.expires {
				c.intake.expire(time.Now().Add(2 * answerDeadline))
				testkit.Eventually(t, "dropped at the deadline", func() bool { return count() == before+1 })
			}
			close(release)
			testkit.Eventually(t, "out of flight", func() bool { return s.InFlight() == 0 })
			if n := count() - before; n != 1 {
				t.Errorf("%d answers were dropped, want 1", n)
			}
		})
	}
}

// ARP and segments of TCP are no queries: they are answered where there is no room for any,
// and none is in flight for them.
func TestNoQueryNeedsNoAdmission(t *testing.T) {
	c, peer := tcpChannel(t)
	s := serve(c.intake, nil, func(c *Config) { c.Concurrent = 0 })
	before := packetIns(t, metric.Refused, metric.ReasonOverload)
	send(t, peer, punttest.Punt(punttest.QueryFrame()))
	packetOut(t, peer) // SERVFAIL
	// What is sent is counted behind that.
	testkit.Eventually(t, "the query is rejected, as there is no room", func() bool {
		return packetIns(t, metric.Refused, metric.ReasonOverload) == before+1
	})
	neighbors, dropped := packetIns(t, metric.Answered, metric.ReasonNeighbor), packetIns(t, metric.Dropped, metric.ReasonOverload)
	const n = 3
	for range n {
		send(t, peer, punttest.Punt(arpFrame()))
		m := packetOut(t, peer)
		if etherARP := []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 2}; !bytes.Contains(m, etherARP) {
			t.Fatalf("no ARP reply: %x", m)
		}
	}
	begin(t, peer)
	testkit.Eventually(t, "the ARP requests are counted", func() bool {
		return packetIns(t, metric.Answered, metric.ReasonNeighbor)-neighbors == n
	})
	if got := packetIns(t, metric.Dropped, metric.ReasonOverload) - dropped; got != 0 || s.InFlight() != 0 || c.Pending() != 0 {
		t.Errorf("%d dropped, %d in flight, %d pending", got, s.InFlight(), c.Pending())
	}
}

// What the connection has decoded is not decoded again: the answer goes where that says.
func TestPacketInDecodedOnce(t *testing.T) {
	c, peer := newChannel(t)
	serve(c.intake, reply, nil)
	message := punttest.Punt(punttest.QueryFrame())
	var in openflow.PacketIn
	if err := in.Decode(message); err != nil {
		t.Fatal(err)
	}
	const other = 77
	in.InPort = other
	c.PacketIn(&in)
	clear(message) // the next one is read into it
	m := packetOut(t, peer)
	if u := punttest.AnswerIn(t, m); !bytes.Contains(m[:40], []byte{0, 0, 0, other}) || u.Payload[0] != punttest.Query[0] {
		t.Errorf("answered %x", m)
	}
}

// The reader runs queries for names that the databases have, and leaves others to workers:
// what comes behind those is answered at once, and none counts as one that has blocked the
// reader. Each name is looked up once.
func TestReaderRunsKnownNames(t *testing.T) {
	for range 100 { // on a busy machine the reader may leave all of them to workers
		if readerRunsKnownNames(t) {
			return
		}
	}
	t.Error("the reader has never looked at three queries of one read")
}

// readerRunsKnownNames reports whether the reader has looked at all queries.
func readerRunsKnownNames(t *testing.T) bool {
	c, peer := newChannel(t)
	guestIs(c.intake, "1")
	release := make(chan struct{})
	var lookups, wrong atomic.Int64
	s := serve(c.intake, func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) {
		x, ok := FromContext(ctx)
		if !ok || x.Request() != r || ctx.Value(ovn.LookupCacheKey{}) != &x.found {
			t.Error("no exchange in the context, or not what was found")
		}
		known := r.Question[0].Name == "A."
		if x.onReader() != known {
			wrong.Add(1)
		}
		if !known {
			<-release
		}
		reply(ctx, w, r)
	}, func(c *Config) {
		c.FromMemory = true
		c.Find = func(o *origin.Origin, qname string, _ *ovn.LookupCache) bool {
			lookups.Add(1)
			return o.Port == "port-1" && qname == "a."
		}
	})
	named := func(label byte) []byte {
		f := punttest.QueryFrame()
		f[len(f)-6] = label
		return punttest.Punt(f)
	}
	send(t, peer, named('b'), named('c'), named('A'))
	if name := nextAnswer(t, peer).Question[0].Name; name != "A." {
		t.Errorf("%s was answered first", name)
	}
	close(release)
	answers(t, peer, 2)
	if lookups.Load() < 3 {
		return false
	}
	if s.workersUntil.Load() != 0 || lookups.Load() > 3 || wrong.Load() > 0 {
		t.Errorf("%d lookups for three queries, %d run by the wrong goroutine; the reader was blocked: %v", lookups.Load(), wrong.Load(), s.workersUntil.Load() != 0)
	}
	return true
}

// In hijack mode a query over the limits goes on to its destination, unless it is for a name
// that a chain answers by itself, or guests fail closed.
func TestOverloadInHijackMode(t *testing.T) {
	for _, tt := range []struct {
		name            string
		answers, closed bool
		result, reason  string
	}{
		{"a name of somebody else", false, false, metric.Resumed, metric.ReasonOverload},
		{"a name of a chain", true, false, metric.Refused, metric.ReasonOverload},
		{"a guest that fails closed", false, true, metric.Refused, metric.ReasonOverload},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, peer := newChannel(t)
			guestIs(c.intake, "1")
			serve(c.intake, reply, func(config *Config) {
				config.Guests, config.Concurrent = hijacking(), 0
				config.Guests.FailClosed = tt.closed
				config.Answers = func(o *origin.Origin, qname string) bool { return tt.answers && qname == "a." && o.Port == "port-1" }
			})
			before := packetIns(t, tt.result, tt.reason)
			send(t, peer, punttest.ResumablePunt(punttest.QueryFrame()))
			packetOut(t, peer)
			testkit.Eventually(t, tt.result, func() bool { return packetIns(t, tt.result, tt.reason) == before+1 })
		})
	}
}

// In hijack mode a query of a guest that nobody knows goes on to its destination, unless guests fail closed.
func TestUnknownInHijackMode(t *testing.T) {
	for closed, result := range map[bool]string{false: metric.Resumed, true: metric.Refused} {
		t.Run(result, func(t *testing.T) {
			c, peer := newChannel(t)
			serve(c.intake, reply, func(config *Config) {
				config.Guests = hijacking()
				config.Guests.FailClosed = closed
			})
			before := packetIns(t, result, metric.ReasonOrigin)
			send(t, peer, punttest.ResumablePunt(punttest.QueryFrame()))
			packetOut(t, peer)
			testkit.Eventually(t, result, func() bool { return packetIns(t, result, metric.ReasonOrigin) == before+1 })
		})
	}
}

// A query that no block has taken is counted as such where the name or the asker is why.
func TestNoBlockCounted(t *testing.T) {
	for _, tt := range []struct {
		name           string
		taken          bool
		rcode          int
		class          uint16
		result, reason string
	}{
		{"no block", false, dns.RcodeRefused, dns.ClassINET, metric.Refused, metric.ReasonNoBlock},
		{"REFUSED by a plugin", true, dns.RcodeRefused, dns.ClassINET, metric.Answered, metric.ReasonChain},
		{"REFUSED for its class", false, dns.RcodeRefused, dns.ClassCHAOS, metric.Answered, metric.ReasonChain},
		{"BADVERS", false, dns.RcodeBadVers, dns.ClassINET, metric.Answered, metric.ReasonChain},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, peer := newChannel(t)
			guestIs(c.intake, "1")
			serve(c.intake, func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) {
				if x, _ := FromContext(ctx); tt.taken {
					x.SetBlock(&Block{})
				}
				_ = w.WriteMsg(new(dns.Msg).SetRcode(r, tt.rcode&0xf))
			}, nil)
			before := packetIns(t, tt.result, tt.reason)
			f := punttest.QueryFrame()
			binary.BigEndian.PutUint16(f[len(f)-2:], tt.class)
			send(t, peer, punttest.Punt(f))
			packetOut(t, peer)
			testkit.Eventually(t, "counted", func() bool { return packetIns(t, tt.result, tt.reason) == before+1 })
		})
	}
}

// In hijack mode a question that is none for a chain goes on to its destination, unless OVN
// owns the name or the packet may not be resumed: then it is answered as in service mode.
func TestRefusedInHijackMode(t *testing.T) {
	for _, tt := range []struct {
		name         string
		qtype, class uint16
		reason       string
		rcode        int
	}{
		{"IXFR", dns.TypeIXFR, dns.ClassINET, metric.ReasonTransfer, dns.RcodeRefused},
		{"AXFR", dns.TypeAXFR, dns.ClassINET, metric.ReasonTransfer, dns.RcodeRefused},
		{"MAILB", dns.TypeMAILB, dns.ClassINET, metric.ReasonType, dns.RcodeNotImplemented},
		{"MAILA", dns.TypeMAILA, dns.ClassINET, metric.ReasonType, dns.RcodeNotImplemented},
		{"TKEY", dns.TypeTKEY, dns.ClassINET, metric.ReasonType, dns.RcodeFormatError},
		{"class NONE", dns.TypeA, dns.ClassNONE, metric.ReasonForeignQuery, dns.RcodeFormatError},
		{"class CH, for the chain to refuse", dns.TypeTXT, dns.ClassCHAOS, metric.ReasonForeignQuery, dns.RcodeSuccess},
	} {
		for _, of := range []struct{ owned, service bool }{{}, {owned: true}, {service: true}} {
			t.Run(fmt.Sprintf("%s, %+v", tt.name, of), func(t *testing.T) {
				here := of.owned || of.service
				c, peer := newChannel(t)
				guestIs(c.intake, "1")
				serve(c.intake, reply, func(config *Config) {
					config.Guests = hijacking()
					config.OVNOwned = func(o *origin.Origin, qname string) bool { return of.owned && qname == "a." && o.Port == "port-1" }
				})
				result, reason := metric.Resumed, tt.reason
				switch {
				case here && tt.rcode == dns.RcodeSuccess:
					result, reason = metric.Answered, metric.ReasonChain
				case here:
					result = metric.Refused
				}
				before := packetIns(t, result, reason)
				f := punttest.QueryFrame()
				f[len(f)-6] = 'A'
				binary.BigEndian.PutUint16(f[len(f)-4:], tt.qtype)
				binary.BigEndian.PutUint16(f[len(f)-2:], tt.class)
				if of.service {
					send(t, peer, punttest.Punt(f))
				} else {
					send(t, peer, punttest.ResumablePunt(f))
				}
				m := packetOut(t, peer)
				testkit.Eventually(t, result, func() bool { return packetIns(t, result, reason) == before+1 })
				if !here {
					return
				}
				var answer dns.Msg
				if err := answer.Unpack(punttest.AnswerIn(t, m).Payload); err != nil || answer.Rcode != tt.rcode {
					t.Errorf("answered %v, want rcode %d: %v", answer, tt.rcode, err)
				}
			})
		}
	}
}

// The answer to a container, whose frames have lost their tag in the pipeline, gets it back;
// that to a guest whose frames have one has it in the frame.
func TestDatagramTag(t *testing.T) {
	tagged := slices.Insert(punttest.QueryFrame(), 12, 0x81, 0, 0, 9)
	for _, tt := range []struct {
		name  string
		frame []byte
		tag   uint16 // of the container
		push  bool
	}{{"none", punttest.QueryFrame(), 0, false}, {"a container", punttest.QueryFrame(), 7, true}, {"the guest's own", tagged, 7, false}} {
		t.Run(tt.name, func(t *testing.T) {
			c, peer := newChannel(t)
			guestIs(c.intake, "1")
			serve(c.intake, reply, func(config *Config) {
				guest := ovntest.Port("port-1", 3, "02:00:00:00:00:01 10.0.0.11")
				guest.DatapathKey = 1
				if tt.tag != 0 {
					guest.Name, guest.Parent, guest.Tag = "container", "port-1", tt.tag
				}
				snapshot := ovntest.Snapshot(ovn.PortsData{Network: origin.Network{1}, Keys: []uint32{1}, Ports: []ovn.PortData{guest}})
				config.Snapshot = func() *ovn.Snapshot { return snapshot }
				rules := guestConfig()
				rules.Placement = placement.OVN
				config.Guests = guests.NewRules(rules)
			})
			send(t, peer, punttest.OVNPunt(tt.frame, 1, 3))
			m := packetOut(t, peer)
			tag := uint16(0)
			if tt.push {
				tag = tt.tag
			}
			want := outputActions(c.conn, tag)
			const actionsLen, actions = 12, 32
			if got := m[actions : actions+int(binary.BigEndian.Uint16(m[actionsLen:]))]; !bytes.Equal(got, want) {
				t.Errorf("actions %x, want %x", got, want)
			}
			if u := punttest.AnswerIn(t, m); u.Tagged != (len(tt.frame) == len(tagged)) {
				t.Errorf("the frame has a tag: %v", u.Tagged)
			}
		})
	}
}

// At the deadline a message of a connection is answered on a goroutine of its own, unless it
// has ended; and it ends with the last who works on it.
func TestMessageAtDeadline(t *testing.T) {
	c, peer := tcpChannel(t)
	c.intake.done.Go(c.intake.accept)
	entered := make(chan *Exchange, 1)
	release := make(chan struct{})
	serve(c.intake, func(ctx context.Context, _ dns.ResponseWriter, _ *dns.Msg) {
		x, _ := FromContext(ctx)
		entered <- x
		<-release
	}, nil)
	query := append(binary.BigEndian.AppendUint16(nil, uint16(len(punttest.Query))), punttest.Query...)
	next := begin(t, peer)
	// In two segments, or it would be a first.
	send(t, peer, punttest.Punt(punttest.Segment(t, 8, next, punttest.ACK, query[:5])))
	send(t, peer, punttest.Punt(punttest.Segment(t, 13, next, punttest.ACK, query[5:])))
	x := <-entered
	m := x.transport.(*message)
	began, end := make(chan struct{}), make(chan struct{})
	m.atDeadline(func() { close(began); <-end })
	<-began
	close(release)
	testkit.Eventually(t, "left by its chain", func() bool { return m.users.Load() == 1 })
	if n := len(m.connection.open); n != 1 {
		t.Errorf("%d queries of the connection are open while one is answered", n)
	}
	close(end)
	testkit.Eventually(t, "at its end", func() bool { return m.users.Load() == 0 && len(m.connection.open) == 0 })
	m.atDeadline(func() { t.Error("an answer behind the end") })
}
