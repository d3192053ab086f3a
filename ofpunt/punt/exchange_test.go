// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// asked is an exchange that a chain has got, with an ID of its own.
func asked(t *testing.T, c *Channel, id uint16) *Exchange {
	t.Helper()
	d, _ := received(t, c)
	x := &d.exchange
	if !d.decode() {
		t.Fatal("the packet is dropped")
	}
	x.payload = bytes.Clone(x.payload)
	x.payload[0], x.payload[1] = byte(id>>8), byte(id)
	if !x.validate() {
		t.Fatal("the query is refused")
	}
	x.writer.init(x)
	return x
}

// received is the datagram of a packet-in, and that.
func received(t testing.TB, c *Channel) (d *datagram, in *openflow.PacketIn) {
	t.Helper()
	in = new(openflow.PacketIn)
	m := punttest.Punt(punttest.QueryFrame())
	if err := in.Decode(m); err != nil {
		t.Fatal(err)
	}
	d = new(datagram)
	d.receive(c, c.intake.server.Load(), in, placement.Nowhere)
	return d, in
}

// sent counts the answers of each ID that have been sent up to the one with the last:
// the connection keeps their order.
func sent(t *testing.T, peer net.Conn, last uint16) map[uint16]int {
	t.Helper()
	all := map[uint16]int{}
	_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
	for b := make([]byte, 1<<18); all[last] == 0; {
		n, err := peer.Read(b)
		if err != nil {
			t.Fatalf("%v after %v", err, all)
		}
		for m := b[:n]; len(m) >= 8; m = m[binary.BigEndian.Uint16(m[2:]):] {
			u := punttest.AnswerIn(t, m[:binary.BigEndian.Uint16(m[2:])])
			all[binary.BigEndian.Uint16(u.Payload)]++
		}
	}
	return all
}

// The first answer is sent, and no other, whoever gives it: a guest's socket
// that is still open would take another answer for that to its next query.
func TestOneAnswer(t *testing.T) {
	c, peer := newChannel(t)
	reply := func(q *Exchange) error { return q.writer.WriteMsg(new(dns.Msg).SetReply(&q.request)) }
	write := func(q *Exchange) error {
		b, err := new(dns.Msg).SetReply(&q.request).Pack()
		if err == nil {
			_, err = q.writer.Write(b)
		}
		return err
	}
	ways := []struct {
		name string
		do   func(*Exchange) error
		// tells is set where the one who comes too late gets an error.
		tells bool
	}{
		{"WriteMsg", reply, true},
		{"Write", write, true},
		{"the deadline", func(q *Exchange) error { q.expire(); return nil }, false},
		{"the chain's end", func(q *Exchange) error { q.drop(metric.ReasonUnanswered); return nil }, false},
	}
	id := uint16(0)
	for _, first := range ways[:3] {
		for _, second := range ways {
			t.Run(first.name+", "+second.name, func(t *testing.T) {
				id += 2
				q := asked(t, c, id)
				if err := first.do(q); err != nil {
					t.Errorf("the first: %v", err)
				}
				if err := second.do(q); second.tells != errors.Is(err, errDone) {
					t.Errorf("the second: %v", err)
				}
				if err := reply(asked(t, c, id+1)); err != nil {
					t.Fatal(err)
				}
				if got := sent(t, peer, id+1); got[id] != 1 || len(got) != 2 {
					t.Errorf("answers by ID: %v, want one of %d", got, id)
				}
			})
		}
	}
	t.Run("at once", func(t *testing.T) {
		const queries, writers = 200, 4
		var taken atomic.Int64
		for i := range uint16(queries) {
			q := asked(t, c, 1000+i)
			var all sync.WaitGroup
			for range writers {
				all.Go(func() {
					switch err := reply(q); {
					case err == nil:
						taken.Add(1)
					case !errors.Is(err, errDone):
						t.Error(err)
					}
				})
			}
			all.Go(q.expire)
			all.Wait()
		}
		if err := reply(asked(t, c, 2000)); err != nil {
			t.Fatal(err)
		}
		got := sent(t, peer, 2000)
		for i := range uint16(queries) {
			if n := got[1000+i]; n != 1 {
				t.Errorf("%d answers to query %d", n, i)
			}
		}
		if n := taken.Load(); n > queries {
			t.Errorf("%d answers to %d queries were taken", n, queries)
		}
	})
}
