// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/miekg/dns"
)

// maxPayload is the largest answer in bytes, whatever buffer the guest offers:
// what passes an IPv6 path of minimal MTU unfragmented with room to spare (the
// DNS Flag Day 2020 figure). An answer in fragments would pass neither an
// overlay's MTU nor a stateless filter.
const maxPayload = 1232

// payloadLimit is the largest answer in bytes to a datagram with r.
func payloadLimit(r *dns.Msg) int {
	if o := r.IsEdns0(); o != nil {
		return min(max(int(o.UDPSize()), dns.MinMsgSize), maxPayload)
	}
	return dns.MinMsgSize
}

// writer is the dns.ResponseWriter of a punted query. It is safe for concurrent
// use; the first message that it takes is the answer, others are errors.
type writer struct {
	q             *query
	limit         int
	local, remote udpAddr
}

// init makes w of a query; in place, as its addresses point into it.
func (w *writer) init(q *query) {
	w.q, w.limit = q, dns.MaxMsgSize
	if q.stream == nil {
		w.limit = payloadLimit(&q.request)
	}
	w.local.set(q.ends.Dst)
	w.remote.set(q.ends.Src)
}

// LocalAddr is the address that the guest asked.
func (w *writer) LocalAddr() net.Addr { return w.addr(&w.local) }

// RemoteAddr is the address of the guest, by its own word. Tenants may share
// addresses: it identifies nobody.
func (w *writer) RemoteAddr() net.Addr { return w.addr(&w.remote) }

// addr is a in the type that tells plugins the transport.
func (w *writer) addr(a *udpAddr) net.Addr {
	if w.q.stream != nil {
		return &net.TCPAddr{IP: a.IP, Port: a.Port}
	}
	return &a.UDPAddr
}

// udpAddr is a net.UDPAddr with the room for its address: plugins ask for it many
// times a query.
type udpAddr struct {
	net.UDPAddr
	ip [net.IPv6len]byte
}

func (u *udpAddr) set(a netip.AddrPort) {
	u.IP, u.Port = u.ip[:0], int(a.Port())
	if ip := a.Addr(); ip.Is4() {
		b := ip.As4()
		u.IP = append(u.IP, b[:]...)
	} else {
		u.ip = ip.As16()
		u.IP = u.ip[:]
	}
}

// WriteMsg implements dns.ResponseWriter. An answer over the limit is sent
// without what does not fit, with TC set.
func (w *writer) WriteMsg(m *dns.Msg) error {
	if o := m.IsEdns0(); o != nil {
		// CoreDNS returns half of the flags that are to be 0 (RFC 6891, section 6.1.4).
		o.Hdr.Ttl &^= 0x7fff
	}
	if m.Len() > w.limit {
		m.Truncate(w.limit)
	}
	b := buffers.get()
	defer buffers.put(b)
	answer, err := m.PackBuffer(b.answer[:cap(b.answer)])
	if err != nil {
		// The server answers with an error then.
		return fmt.Errorf("packing the answer: %w", err)
	}
	b.answer = answer
	return w.q.reply(b, answered, reasonChain)
}

// Write implements dns.ResponseWriter; p is a whole DNS message.
func (w *writer) Write(p []byte) (int, error) {
	if len(p) > w.limit {
		return 0, fmt.Errorf("answer of %d bytes, at most %d reach the guest", len(p), w.limit)
	}
	b := buffers.get()
	defer buffers.put(b)
	b.answer = append(b.answer[:0], p...)
	if err := w.q.reply(b, answered, reasonChain); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close, TsigStatus, TsigTimersOnly and Hijack implement dns.ResponseWriter. A
// punt has no connection and no TSIG.
func (w *writer) Close() error        { return nil }
func (w *writer) TsigStatus() error   { return errNoTSIG }
func (w *writer) TsigTimersOnly(bool) {}
func (w *writer) Hijack()             {}

var errNoTSIG = errors.New("no TSIG on a punted query")

// buffer is the room in which an answer grows from message to frame to
// packet-out.
type buffer struct{ answer, frame, message []byte }

// buffers is a pool of them.
var buffers bufferPool

type bufferPool struct{ sync.Pool }

func (p *bufferPool) get() *buffer {
	if b, ok := p.Get().(*buffer); ok {
		return b
	}
	return &buffer{
		answer:  make([]byte, 0, maxPayload),
		frame:   make([]byte, 0, 1536),
		message: make([]byte, 0, 2048),
	}
}

// put takes b back, unless an answer over TCP has made it large.
func (p *bufferPool) put(b *buffer) {
	if cap(b.answer) <= maxPooled {
		p.Put(b)
	}
}

// maxPooled, in bytes, is above all that goes into a datagram.
const maxPooled = 4096
