// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/metric"
)

// maxPayload is the largest answer in bytes, whatever the guest offers: the DNS Flag Day 2020 figure for
// unfragmented IPv6. Fragments pass neither an overlay's MTU nor a stateless filter.
const maxPayload = 1232

func payloadLimit(r *dns.Msg) int {
	if o := r.IsEdns0(); o != nil {
		return min(max(int(o.UDPSize()), dns.MinMsgSize), maxPayload)
	}
	return dns.MinMsgSize
}

// writer is the dns.ResponseWriter of an exchange, safe for concurrent use. A second message is an error, except in
// a zone transfer over TCP on one goroutine (RFC 5936, section 2.2).
type writer struct {
	x       *Exchange
	limit   int32
	overTCP bool
	// DO of the query: plugins may change the request
	do bool
	// transfers is set for a zone transfer over TCP, more after its first message.
	transfers     bool
	more          atomic.Bool
	local, remote udpAddr
}

// in place, as the addresses point into w
func (w *writer) init(x *Exchange) {
	w.x, w.limit, w.overTCP = x, dns.MaxMsgSize, x.transport.overTCP()
	if o := x.request.IsEdns0(); o != nil {
		w.do = o.Do()
	}
	if !w.overTCP {
		w.limit = int32(payloadLimit(&x.request))
	}
	if w.overTCP {
		qtype := x.request.Question[0].Qtype
		w.transfers = qtype == dns.TypeAXFR || qtype == dns.TypeIXFR
	}
	w.local.set(x.from.ends.Dst)
	w.remote.set(x.from.ends.Src)
}

// LocalAddr returns the address that the guest asked.
func (w *writer) LocalAddr() net.Addr { return w.addr(&w.local) }

// RemoteAddr returns the packet's source address. It identifies no guest: tenants may share addresses.
func (w *writer) RemoteAddr() net.Addr { return w.addr(&w.remote) }

// Plugins detect the transport by the type.
func (w *writer) addr(a *udpAddr) net.Addr {
	if w.overTCP {
		return (*net.TCPAddr)(&a.UDPAddr) // the fields are the same
	}
	return &a.UDPAddr
}

// udpAddr has memory for the address: plugins ask for it many times a query.
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

// WriteMsg implements dns.ResponseWriter. It truncates an answer over the limit and sets TC.
func (w *writer) WriteMsg(m *dns.Msg) error {
	if m.Rcode >= RcodeResumed {
		// Plugins have seen the rcode. *log* takes any other for an error.
		m.Rcode = dns.RcodeSuccess
		return errNoAnswer
	}
	if w.x.offersRecursion() {
		m.RecursionAvailable = true
	}
	if o := m.IsEdns0(); o != nil {
		// CoreDNS returns reserved flags (RFC 6891, section 6.1.4), an upstream's DO, and BADVERS without DO (RFC
		// 3225, section 3). It returns the guest's buffer size in the query's record, which plugins read again.
		o.Hdr.Ttl &^= 0xffff
		o.SetDo(w.do)
		size := o.Hdr.Class
		o.Hdr.Class = maxPayload
		defer func() { o.Hdr.Class = size }()
	}
	setKeepalive(m, w.x.promise(w.x.keepalive))
	if w.overTCP && m.Len() > maxPayload {
		m.Compress = true // as for an answer too large for a datagram
	}
	b := buffers.get()
	defer buffers.put(b)
	answer, err := w.pack(m, b)
	if err != nil {
		return w.fail(err)
	}
	b.answer, b.rcode, b.answerer = answer, m.Rcode, w.x.server.answererOf(m)
	if w.more.Load() {
		return w.x.replyMore(b)
	}
	err = w.reply(m, b)
	if err == nil && w.transfers && m.Rcode == dns.RcodeSuccess {
		w.more.Store(true)
	}
	return err
}

func (w *writer) pack(m *dns.Msg, b *buffer) ([]byte, error) {
	limit := int(w.limit)
	if s := w.x.signer.Load(); s != nil && m.IsTsig() != nil {
		return s.sign(m, limit)
	}
	if m.Len() > limit {
		m.Truncate(limit)
	}
	return m.PackBuffer(b.answer[:cap(b.answer)])
}

func (w *writer) reply(m *dns.Msg, b *buffer) error {
	switch {
	case m.Rcode == dns.RcodeServerFailure && w.x.looped.Load():
		return w.x.reply(b, metric.Refused, metric.ReasonLoop, 0)
	case m.Rcode == dns.RcodeRefused && w.x.unmatched() && w.x.request.Question[0].Qclass == dns.ClassINET:
		return w.x.reply(b, metric.Refused, metric.ReasonNoBlock, 0)
	}
	return w.x.reply(b, metric.Answered, metric.ReasonChain, 0)
}

// Write implements dns.ResponseWriter. No plugin of this build calls it.
func (w *writer) Write(p []byte) (int, error) {
	m := new(dns.Msg)
	if err := m.Unpack(p); err != nil {
		return 0, w.fail(err)
	}
	m.Compress = true
	if err := w.WriteMsg(m); err != nil {
		return 0, err
	}
	return len(p), nil
}

// fail answers SERVFAIL: some plugins ignore the error, and the guest would wait.
func (w *writer) fail(err error) error {
	err = fmt.Errorf("packing the answer: %w", err)
	if !w.x.server.unpackable.Swap(true) {
		log.Warningf("Bridge %s: SERVFAIL in place of an answer of the plugins, further ones are counted: %v", w.x.from.channel.intake.bridge.Name, err)
	}
	w.x.replyError(dns.RcodeServerFailure, metric.Answered, metric.ReasonUnpackable)
	return err
}

func (w *writer) TsigStatus() error {
	if s := w.x.signer.Load(); s != nil {
		return s.status
	}
	return errNoKeys
}

func (w *writer) TsigTimersOnly(only bool) {
	if s := w.x.signer.Load(); s != nil {
		s.timersOnly = only
	}
}

// Close and Hijack implement dns.ResponseWriter. A punt has no connection.
func (w *writer) Close() error { return nil }
func (w *writer) Hijack()      {}

var (
	errNoKeys   = errors.New("the server block has no key for TSIG")
	errMoved    = errors.New("the port of the guest is another's")
	errNoAnswer = errors.New("not an answer, but the outcome of a query without one")
)
