// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
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
	for _, n := range []int{11, headerLen, len(query1) - 4, len(query1) - 2} {
		f.Add([]byte(query1[:n]), uint16(1))
	}
	f.Add([]byte("\x12\x34\x81"+query1[3:]), uint16(1))

	s, peer := pairSession(f, func() {})
	records := 0 // of the answer that the chain gives
	c := &dnsserver.Config{Zone: "."}
	c.AddPlugin(func(plugin.Handler) plugin.Handler {
		return plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			m := new(dns.Msg).SetReply(r)
			for i := range records {
				m.Answer = append(m.Answer, &dns.A{
					Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET},
					A:   net.IPv4(10, 0, byte(i>>8), byte(i)),
				})
			}
			if err := w.WriteMsg(m); err != nil {
				return dns.RcodeServerFailure, err
			}
			return dns.RcodeSuccess, nil
		})
	})
	srv := &server{options: s.bridge.current.Load().options, admission: newAdmission(1)}
	var err error
	if srv.dns, err = dnsserver.NewServer("fuzz", []*dnsserver.Config{c}); err != nil {
		f.Fatal(err)
	}
	room := make([]byte, 1<<18)
	f.Fuzz(func(t *testing.T, payload []byte, n uint16) {
		records = int(n) % 1000
		q := &query{server: srv, session: s, prepared: true}
		q.punt.InPort = 5
		if err := q.datagram(queryFrame()); err != nil {
			t.Fatal(err)
		}
		q.payload = slices.Clone(payload)
		q.judge()
		limit := max(len(payload), headerLen) // an error has no more than the question
		if q.parsed.Load() {
			limit = payloadLimit(&q.request)
		}
		q.run()
		if srv.panicked.Load() {
			t.Fatal("a panic")
		}
		if !q.done.Load() {
			t.Error("the query is not at its end")
		}
		// What was sent stands before an echo request.
		const echo = 2
		if err := s.conn.WriteNow(message(echo, 0, nil)); err != nil {
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
					told = append(told, slices.Clone(answerIn(t, m[:binary.BigEndian.Uint16(m[2:])]).Payload))
				}
			}
		}
		want, a := 1, accept(payload)
		if a == acceptShort || a == acceptResponse {
			want = 0
		}
		// Plugins look at the question without a doubt.
		if q.parsed.Load() && (a != acceptQuery || len(q.request.Question) != 1) {
			t.Errorf("a chain was asked %v", &q.request)
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
			if a == acceptQuery && !q.parsed.Load() && r.Rcode != dns.RcodeFormatError {
				t.Errorf("%v to %x", &r, payload)
			}
			if q.parsed.Load() && !slices.Equal(r.Question, q.request.Question) {
				t.Errorf("asked %v, answered %v", q.request.Question, r.Question)
			}
			if r.Rcode == dns.RcodeSuccess && q.parsed.Load() && len(r.Answer) != records && !r.Truncated {
				t.Errorf("%d records of %d, and TC is not set", len(r.Answer), records)
			}
		}
	})
}
