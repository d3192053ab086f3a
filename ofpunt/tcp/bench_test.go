// SPDX-License-Identifier: Apache-2.0

package tcp_test

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// sequencePeer remembers the number of the last segment that it was sent.
type sequencePeer struct{ next uint32 }

// Send implements tcp.Peer.
func (p *sequencePeer) Send(b []byte) { p.next = header.TCP(b).SequenceNumber() + 1 }

// clientSegment is a segment of a peer that has sent the given number of bytes and acknowledges all received
// bytes.
func clientSegment(flags header.TCPFlags, sequence, ack uint32, text string) []byte {
	b := header.TCP(make([]byte, header.TCPMinimumSize))
	b.Encode(&header.TCPFields{SrcPort: guest4.Port(), DstPort: 53, SeqNum: sequence, AckNum: ack, DataOffset: header.TCPMinimumSize, Flags: flags, WindowSize: 65535})
	return append(b, text...)
}

// BenchmarkLight is what a connection with one request takes of the stack, from its SYN to its end.
func BenchmarkLight(b *testing.B) {
	s, err := tcp.New()
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var r tcp.Request
	s.Handle(func(is tcp.Request, _ []byte) bool { r = is; return true }, tcp.Peer.Send)
	key := tcp.Key{Network: "red", Owner: "vm", Src: guest4, Dst: resolver4}
	p := &sequencePeer{}
	answer := make([]byte, 60)
	deliver := func(flags header.TCPFlags, sequence uint32, text string) {
		s.Deliver(key, tcp.MaxOfOwner, p, clientSegment(flags, sequence, p.next, text), time.Now())
	}
	b.ReportAllocs()
	for b.Loop() {
		deliver(syn, 0, "")
		deliver(ack, 1, "")
		deliver(data, 1, "query")
		if err := r.Send(answer, time.Time{}, tcp.Peer.Send); err != nil {
			b.Fatal(err)
		}
		r.Done()
		p.next += uint32(len(answer)) - 1
		deliver(fin|ack, 6, "")
		deliver(ack, 7, "")
		if n := s.Connections(); n != 0 {
			b.Fatalf("%d connections", n)
		}
	}
}

// BenchmarkLightMemory is what a light connection takes of memory until its request has come, and
// with an answer that is not acknowledged.
func BenchmarkLightMemory(b *testing.B) {
	heap := func() int64 {
		var m runtime.MemStats
		for range 3 { // pools keep what they have for two of them
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for b.Loop() {
		s, err := tcp.New()
		if err != nil {
			b.Fatal(err)
		}
		var requests []tcp.Request
		s.Handle(func(r tcp.Request, _ []byte) bool { requests = append(requests, r); return true }, tcp.Peer.Send)
		const n = tcp.MaxConnections / 2
		peers := make([]sequencePeer, n)
		deliver := func(i int, flags header.TCPFlags, sequence uint32, text string) {
			key := tcp.Key{Network: "red", Owner: i / tcp.MaxOfOwner, Src: netip.AddrPortFrom(guest4.Addr(), uint16(1000+i)), Dst: resolver4}
			s.Deliver(key, tcp.MaxOfOwner, &peers[i], clientSegment(flags, sequence, peers[i].next, text), time.Now())
		}
		before := heap()
		for i := range n {
			deliver(i, syn, 0, "")
		}
		b.ReportMetric(float64(heap()-before)/n, "bytes/open")
		for i := range n {
			deliver(i, data, 1, "query")
		}
		for _, r := range requests {
			if err := r.Send(make([]byte, 536), time.Time{}, tcp.Peer.Send); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(heap()-before)/n, "bytes/answered")
		s.Close()
	}
}
