// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// Whatever a guest sends as a DNS message: nothing panics, and where it is a query
// at all there is one answer, which can be read, has the ID, and is not longer than
// the guest has room for.
func FuzzQuery(f *testing.F) {
	for _, name := range []string{"a.", "db.internal.", `\000\255.\".internal.`, "8.0.0.0.ip6.arpa."} {
		m := new(dns.Msg).SetQuestion(name, dns.TypeA)
		for range 2 {
			b, err := m.Pack()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b, uint16(0))
			f.Add(b, uint16(50))
			f.Add(b, uint16(300))
			m.SetEdns0(4096, true)
			m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0011223344556677"}}
		}
	}
	for _, n := range []int{11, headerLen, len(punttest.Query) - 4, len(punttest.Query) - 2} {
		f.Add([]byte(punttest.Query[:n]), uint16(1))
	}
	f.Add([]byte("\x12\x34\x81"+punttest.Query[3:]), uint16(1))

	c, peer := newChannel(f)
	records := 0 // of the answer that the chain gives
	srv := serve(c.intake, func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		for i := range records {
			m.Answer = append(m.Answer, &dns.A{
				Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET},
				A:   net.IPv4(10, 0, byte(i>>8), byte(i)),
			})
		}
		_ = w.WriteMsg(m)
	}, nil)
	room := make([]byte, 1<<18)
	f.Fuzz(func(t *testing.T, payload []byte, n uint16) {
		records = int(n) % 1000
		d, _ := received(t, c)
		if !d.decode() {
			t.Fatal("the packet is dropped")
		}
		x := &d.exchange
		x.payload = slices.Clone(payload)
		x.validate()
		limit := max(len(payload), headerLen) // an error has no more than the question
		if x.ready.Load() {
			limit = payloadLimit(&x.request)
		}
		func() {
			defer x.end()
			if x.ready.Load() {
				x.ask()
			}
		}()
		if srv.panicked.Load() {
			t.Fatal("a panic")
		}
		if !x.done.Load() {
			t.Error("the query is not at its end")
		}
		// What was sent stands before an echo request.
		const echo = 2
		if err := c.conn.Write(punttest.Message(echo, 0, nil), openflow.Now, false); err != nil {
			t.Fatal(err)
		}
		_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
		var told [][]byte
		for last := false; !last; {
			k, err := peer.Read(room)
			if err != nil {
				t.Fatal(err)
			}
			for m := room[:k]; len(m) >= 8; m = m[binary.BigEndian.Uint16(m[2:]):] {
				if last = m[1] == echo; !last {
					told = append(told, slices.Clone(punttest.AnswerIn(t, m[:binary.BigEndian.Uint16(m[2:])]).Payload))
				}
			}
		}
		want, a := 1, accept(payload)
		if a == acceptShort || a == acceptResponse {
			want = 0
		}
		// Plugins look at the question without a doubt.
		if x.ready.Load() && (a != acceptQuery || len(x.request.Question) != 1) {
			t.Errorf("a chain was asked %v", &x.request)
		}
		if len(told) != want {
			t.Fatalf("%d answers to %x, want %d", len(told), payload, want)
		}
		for _, b := range told {
			var r dns.Msg
			if err := r.Unpack(b); err != nil {
				t.Fatalf("%x: %v", b, err)
			}
			if len(b) > limit {
				t.Errorf("%d bytes, at most %d reach the guest", len(b), limit)
			}
			if r.Id != binary.BigEndian.Uint16(payload) || !r.Response {
				t.Errorf("%v answers %x", &r, payload)
			}
			if a == acceptQuery && !x.ready.Load() {
				want := dns.RcodeFormatError
				if wellFormed(payload) && new(dns.Msg).Unpack(payload) == nil {
					want, _ = refusedQuestion(r.Question[0], false)
				}
				if r.Rcode != want {
					t.Errorf("%v to %x", &r, payload)
				}
			}
			if x.ready.Load() && !slices.Equal(r.Question, x.request.Question) {
				t.Errorf("asked %v, answered %v", x.request.Question, r.Question)
			}
			if r.Rcode == dns.RcodeSuccess && x.ready.Load() && len(r.Answer) != records && !r.Truncated {
				t.Errorf("%d records of %d, and TC is not set", len(r.Answer), records)
			}
		}
	})
}
