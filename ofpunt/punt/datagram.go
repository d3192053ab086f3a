// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// Limits use the registers and in_port of the packet-in; the frame is decoded after admission.

// query runs on the reader's goroutine.
func (c *Channel) query(in *openflow.PacketIn, onward placement.Onward) {
	d := new(datagram)
	in.Own()
	d.receive(c, c.intake.server.Load(), in, onward)
	for {
		s := d.server
		if reason := s.admission.admit(&d.exchange, s.ConcurrentGuest); reason != "" {
			d.exchange.countLimit(reason)
			d.reject(reason)
			return
		}
		// A reload waits for the old server's queries. A query admitted after the wait must not use the old chain.
		now := c.intake.server.Load()
		if s == now {
			break
		}
		s.admission.release(&d.exchange)
		d = d.forServer(now)
	}
	c.pending.Add(1)
	c.start(d, &d.exchange)
}

type datagram struct {
	packet
	exchange Exchange
}

// receive retains the slices of in.
func (d *datagram) receive(c *Channel, s *Server, in *openflow.PacketIn, onward placement.Onward) {
	d.init(c, s, in, onward)
	d.exchange.init(s, d, &d.sender)
}

func (d *datagram) forServer(s *Server) *datagram {
	o := new(datagram)
	o.receive(d.channel, s, &d.in, d.onward)
	return o
}

// Run implements openflow.Task: the reader runs d unless d may block.
func (d *datagram) Run(turn uint64) {
	d.exchange.turn.Store(turn)
	if !d.prepareOnReader() {
		d.exchange.turn.Store(0)
		d.channel.dispatch((*prepared)(d))
		return
	}
	d.ask()
}

type prepared datagram

func (p *prepared) run() { (*datagram)(p).ask() }

// prepareOnReader reports whether the reader can do the rest without blocking.
func (d *datagram) prepareOnReader() bool {
	d.prepare()
	return !d.exchange.ready.Load() || d.exchange.runsOnReader()
}

func (x *Exchange) isFound() (is bool) {
	defer func() { x.panicked(recover()) }()
	return x.server.Find(&x.from.origin, strings.ToLower(x.request.Question[0].Name), &x.found)
}

func (d *datagram) run() {
	d.prepare()
	d.ask()
}

func (d *datagram) ask() {
	defer d.exchange.end()
	if d.exchange.ready.Load() {
		d.exchange.ask()
	}
}

// prepare does the work before the chain. Call it once.
func (d *datagram) prepare() {
	defer func() { d.exchange.panicked(recover()) }()
	if d.decode() && d.identify() {
		d.exchange.validate()
	}
}

// decode reports false if it has dropped or resumed the packet.
func (d *datagram) decode() bool {
	err := d.decodeFrame()
	if err != nil {
		d.exchange.resumeOrDrop(metric.Dropped, refusal(err))
	}
	return err == nil
}

func (d *datagram) decodeFrame() error {
	var u frame.UDP
	err := u.Decode(d.in.Data)
	d.exchange.payload = u.Payload
	if err == nil {
		d.setEnds(u.Ends, placement.ProtoUDP)
	}
	return err
}

// identify reports whether a known sender has asked its resolver address; if not, it has dealt with the packet.
func (d *datagram) identify() bool {
	defer d.forget()
	if !d.identifySender() {
		d.exchange.refuse(dns.RcodeServerFailure, metric.ReasonOrigin)
		return false
	}
	if !d.isToResolver() {
		d.exchange.resumeOrDrop(metric.Dropped, metric.ReasonAddress)
		return false
	}
	return true
}

func (d *datagram) identifySender() bool {
	ok := d.packet.identify()
	if ok && d.resumable() {
		d.origin.Resumer = &d.exchange
	}
	return ok
}

func (d *datagram) reject(reason string) {
	x := &d.exchange
	defer x.end()
	defer d.forget()
	if d.decodeFrame() != nil || !d.identifySender() || !d.isToResolver() || accept(x.payload) != acceptQuery {
		x.resumeOrDrop(metric.Dropped, reason)
		return
	}
	x.reject(reason)
}

// reject deals with an exchange over the limits. In hijack mode the destination may have capacity, so it resumes
// the query, except for names answered here and guests that fail closed.
func (x *Exchange) reject(reason string) {
	switch {
	case x.transport.resumable() && x.server.hijack() && !x.server.Guests.FailsClosed(x.from.limit) && !x.answersName():
		x.resumeOrDrop(metric.Resumed, reason)
	case x.server.DropOverload:
		x.drop(reason)
	default:
		x.replyError(dns.RcodeServerFailure, metric.Refused, reason)
	}
}

// answersName reports whether a chain itself answers for the name. Parsing the whole message would block the
// reader.
func (x *Exchange) answersName() bool {
	qname, _, err := dns.UnpackDomainName(x.payload, headerLen)
	return err == nil && x.server.Answers(&x.from.origin, strings.ToLower(qname))
}

func (d *datagram) overTCP() bool { return false }

// send never blocks.
func (d *datagram) send(b *buffer, _ time.Time) (err error) {
	if b.frame, err = d.ends.AppendDatagram(b.frame[:0], b.answer, true); err != nil {
		return err
	}
	return d.channel.packetOut(b, d.inPort, d.tag, d.exchange.onReader())
}

func (d *datagram) resume() error { return d.packet.resume(d.exchange.onReader()) }

func (d *datagram) promise(time.Duration) int { return -1 }

func (d *datagram) atDeadline(answer func()) { answer() }

func (d *datagram) release() {}
