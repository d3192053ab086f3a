// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// nextAnswer is the DNS message of the next packet-out.
func nextAnswer(t *testing.T, peer net.Conn) *dns.Msg {
	t.Helper()
	_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
	b := make([]byte, 1<<16)
	n, err := peer.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	if k := int(binary.BigEndian.Uint16(b[2:])); k != n {
		t.Fatalf("%d bytes behind the answer", n-k)
	}
	m := new(dns.Msg)
	if err := m.Unpack(punttest.AnswerIn(t, b[:n]).Payload); err != nil {
		t.Fatal(err)
	}
	return m
}

// Each answer with an OPT record tells what this process takes, whatever the record was
// made of. The guest's size, which CoreDNS puts there, is in the query once more for
// those who read it behind the answer, as log does.
func TestAnswerSize(t *testing.T) {
	c, peer := newChannel(t)
	opt := func(size uint16) *dns.OPT {
		return &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT, Class: size}}
	}
	tests := []struct {
		name        string
		asked, told *dns.OPT // told is of the plugins, nil for that of the query
	}{
		{"that of the query", opt(4096), nil},
		{"of a small buffer", opt(0), nil},
		{"one of its own", opt(4096), opt(512)},
		{"one of its own without a size, as in BADVERS", opt(4096), opt(0)},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := asked(t, c, uint16(i))
			q.request.Extra = []dns.RR{tt.asked}
			size := tt.asked.UDPSize()
			m := new(dns.Msg).SetReply(&q.request)
			m.Extra = []dns.RR{tt.asked}
			if tt.told != nil {
				m.Extra = []dns.RR{tt.told}
			}
			if err := q.writer.WriteMsg(m); err != nil {
				t.Fatal(err)
			}
			got := nextAnswer(t, peer)
			if o := got.IsEdns0(); o == nil || o.UDPSize() != maxPayload {
				t.Errorf("answer %v, want a size of %d", got, maxPayload)
			}
			if got := tt.asked.UDPSize(); got != size {
				t.Errorf("the query's size is %d now, it was %d", got, size)
			}
		})
	}
}

// Each answer with an OPT record has the DO of the query (RFC 3225, section 3) and no other flag,
// whatever an upstream has set and CoreDNS has left out.
func TestAnswerDO(t *testing.T) {
	c, peer := newChannel(t)
	const do, other = 1 << 15, 1 << 14
	for i, tt := range []struct {
		name              string
		asked, told, want uint32 // flags
	}{
		{"DO", do, do, do},
		{"DO, which the answer lacks, as BADVERS does", do, 0, do},
		{"DO of an upstream", 0, do, 0},
		{"another flag", do | other, do | other, do},
		{"none", 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opt := func(flags uint32) *dns.OPT {
				return &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT, Class: 1232, Ttl: flags}}
			}
			q := asked(t, c, uint16(i))
			q.request.Extra = []dns.RR{opt(tt.asked)}
			q.writer.init(q)
			m := new(dns.Msg).SetRcode(&q.request, dns.RcodeBadVers)
			m.Extra = []dns.RR{opt(tt.told)}
			if err := q.writer.WriteMsg(m); err != nil {
				t.Fatal(err)
			}
			got := nextAnswer(t, peer)
			if o := got.IsEdns0(); o == nil || o.Hdr.Ttl&0xffff != tt.want || got.Rcode != dns.RcodeBadVers {
				t.Errorf("answer %v, want the flags %#x", got, tt.want)
			}
		})
	}
}

// A plugin's answer that is no DNS message: not all plugins tell the server of it, and
// the guest is not to wait for nothing.
func TestUnpackableAnswer(t *testing.T) {
	c, peer := newChannel(t)
	bad := &dns.A{Hdr: dns.RR_Header{Name: "a.", Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IP{1, 2, 3}}
	ways := []struct {
		name string
		do   func(q *Exchange) error
	}{
		{"WriteMsg", func(q *Exchange) error {
			m := new(dns.Msg).SetReply(&q.request)
			m.Answer = []dns.RR{bad}
			return q.writer.WriteMsg(m)
		}},
		{"a label that is too long", func(q *Exchange) error {
			m := new(dns.Msg).SetReply(&q.request)
			m.Answer = []dns.RR{&dns.NS{Hdr: dns.RR_Header{Name: "a.", Rrtype: dns.TypeNS, Class: dns.ClassINET}, Ns: strings.Repeat("x", 64) + "."}}
			return q.writer.WriteMsg(m)
		}},
		{"Write", func(q *Exchange) error {
			_, err := q.writer.Write([]byte(punttest.Query[:13]))
			return err
		}},
	}
	label := metric.PacketIns.WithLabelValues(bridgeName, metric.Answered, metric.ReasonUnpackable)
	for i, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			before := int(testkit.Value(t, label))
			q := asked(t, c, uint16(i))
			if err := way.do(q); err == nil || errors.Is(err, errDone) {
				t.Errorf("the plugin gets %v", err)
			}
			if got := nextAnswer(t, peer); got.Rcode != dns.RcodeServerFailure || len(got.Question) != 1 || len(got.Answer) != 0 {
				t.Errorf("answered %v, want SERVFAIL", got)
			}
			if got := int(testkit.Value(t, label)); got != before+1 {
				t.Errorf("%d counted, want %d", got, before+1)
			}
			if err := q.writer.WriteMsg(new(dns.Msg).SetRcode(&q.request, dns.RcodeServerFailure)); !errors.Is(err, errDone) {
				t.Errorf("CoreDNS's own SERVFAIL: %v", err)
			}
		})
	}
}

func TestWrite(t *testing.T) {
	c, peer := newChannel(t)
	c.intake.server.Load().Recursive = true
	q := asked(t, c, 7)
	m := new(dns.Msg).SetReply(&q.request)
	for range 100 {
		m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: "a.", Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(10, 0, 0, 1)})
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := q.writer.Write(b); err != nil || n != len(b) {
		t.Errorf("%d bytes taken of %d: %v", n, len(b), err)
	}
	got := nextAnswer(t, peer)
	got.Compress = true
	if !got.Truncated || !got.RecursionAvailable || len(got.Answer) == 0 || got.Len() > dns.MinMsgSize {
		t.Errorf("answered %v, want what fits with TC, and RA", got)
	}
}

// Two blocks of one bridge, of which one recurses: an answer has RA where its block
// does, and an error before any block where any does.
func TestRecursionOfBlocks(t *testing.T) {
	c, peer := newChannel(t)
	c.intake.server.Load().Recursive = true
	recursive, plain := func(x *Exchange) { x.SetBlock(&Block{Recursive: true}) }, func(x *Exchange) { x.SetBlock(&Block{}) }
	tests := []struct {
		name  string
		block func(*Exchange)
		fail  bool
		want  bool
	}{
		{"a block that does", recursive, false, true},
		{"one that does not", plain, false, false},
		{"no block so far", nil, false, true},
		{"an error of one that does", recursive, true, true},
		{"an error of one that does not", plain, true, false},
		{"an error before any", nil, true, true},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := asked(t, c, uint16(i))
			if tt.block != nil {
				tt.block(q)
			}
			if tt.fail {
				q.expire()
			} else if err := q.writer.WriteMsg(new(dns.Msg).SetReply(&q.request)); err != nil {
				t.Fatal(err)
			}
			if got := nextAnswer(t, peer); got.RecursionAvailable != tt.want {
				t.Errorf("RA is %v in %v", got.RecursionAvailable, got)
			}
		})
	}
}

// The type of the addresses tells plugins the transport. They ask for them many times a query, so that
// allocates nothing.
func TestAddrs(t *testing.T) {
	for _, overTCP := range []bool{false, true} {
		w := &newExchange(t, &recordingTransport{tcp: overTCP}, false).writer
		wantNetwork := "udp"
		if overTCP {
			wantNetwork = "tcp"
		}
		for want, addr := range map[string]func() net.Addr{"10.0.0.11:5000": w.RemoteAddr, "169.254.169.254:53": w.LocalAddr} {
			if got := addr(); got.String() != want || got.Network() != wantNetwork {
				t.Errorf("%s of %s, want %s of %s", got, got.Network(), want, wantNetwork)
			}
			if n := testing.AllocsPerRun(100, func() { addr() }); n != 0 {
				t.Errorf("%s: %v allocations", wantNetwork, n)
			}
		}
	}
}
