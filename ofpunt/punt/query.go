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

// The path of a query over UDP. The connection has decoded the packet-in. Its registers and in_port name the
// guest whose limits apply. The worker or the reader decodes the frame, after admission.

// query takes a punted UDP packet on the reader's goroutine: it admits the query, or
// rejects it.
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
		// A reload waits for the queries that the old server has admitted. One that was
		// admitted after it had waited must not use the old chain.
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

// datagram is a UDP packet, and the transport of the one exchange that it brings.
type datagram struct {
	packet
	exchange Exchange
}

// receive makes d of a packet-in. It keeps the slices of in.
func (d *datagram) receive(c *Channel, s *Server, in *openflow.PacketIn, onward placement.Onward) {
	d.init(c, s, in, onward)
	d.exchange.init(s, d, &d.sender)
}

// forServer returns a datagram of the same packet-in for another server.
func (d *datagram) forServer(s *Server) *datagram {
	o := new(datagram)
	o.receive(d.channel, s, &d.in, d.onward)
	return o
}

// readerTime is how long the reader of the connection may run queries of one read by
// itself: the work of some hundred.
const readerTime = time.Millisecond

// queryTask is a query that the reader or a worker may run.
type queryTask interface {
	openflow.Task
	task
}

// start has a worker run a query; or the reader, where the chains answer from memory and the
// reader has not been busy for long: to wake a worker is a sixth of the processor time of a
// query.
func (c *Channel) start(q queryTask, x *Exchange) {
	if x.arrived.Sub(c.conn.ReadAt()) < readerTime && x.server.mayRunOnReader(x.arrived) {
		c.conn.RunAfterRead(q)
		return
	}
	c.dispatch(q)
}

// Run implements openflow.Task: the reader runs d unless d has to wait.
func (d *datagram) Run() {
	d.runByReader.Store(true)
	if !d.prepareOnReader() {
		d.runByReader.Store(false)
		d.channel.dispatch((*prepared)(d))
		return
	}
	d.ask()
}

// prepared is a datagram for which prepare has been called.
type prepared datagram

func (p *prepared) run() { (*datagram)(p).ask() }

// prepareOnReader prepares d. It reports whether the reader can do the rest without blocking:
// there is no chain to ask, or the databases know the name.
func (d *datagram) prepareOnReader() bool {
	d.prepare()
	return !d.exchange.ready.Load() || d.exchange.isFound()
}

// isFound reports whether the databases know the name.
func (x *Exchange) isFound() (is bool) {
	defer func() { x.panicked(recover()) }()
	return x.server.Find(&x.from.origin, strings.ToLower(x.request.Question[0].Name), &x.found)
}

// TaskLasts records that a query has blocked the reader of a connection.
func TaskLasts(t openflow.Task) {
	switch t := t.(type) {
	case *datagram:
		t.server.readerBlocked(t.channel.intake.bridge.Name, time.Now())
	case *firstQuery:
		t.exchange.server.readerBlocked(t.intake.bridge.Name, time.Now())
	}
}

// run takes the datagram through its chain.
func (d *datagram) run() {
	d.prepare()
	d.ask()
}

// ask has the chain answer, if prepare has found a query for it.
func (d *datagram) ask() {
	defer d.exchange.end()
	if d.exchange.ready.Load() {
		d.exchange.ask()
	}
}

// prepare does all that needs no chain. Call it once.
func (d *datagram) prepare() {
	defer func() { d.exchange.panicked(recover()) }()
	if d.decode() && d.identify() {
		d.exchange.validate()
	}
}

// decode reads the frame. It reports whether there is a DNS message; else the packet has
// been dealt with.
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

// identify sets the origin. It reports whether the sender is known and has asked a resolver address of the
// sender. If not, the packet has been dealt with.
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

// reject deals with a query that was not admitted.
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

// reject deals with an exchange over the limits. In hijack mode it goes on to its
// destination unless it is for a name that is answered here: the guest has asked a server
// that has room, perhaps. A query of a guest that fails closed does not go on.
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

// answersName reports whether a chain answers for the name by itself. The message need not
// be parsed as a whole: that would block the reader of the connection.
func (x *Exchange) answersName() bool {
	qname, _, err := dns.UnpackDomainName(x.payload, headerLen)
	return err == nil && x.server.Answers(&x.from.origin, strings.ToLower(qname))
}

// The transport of an exchange that came as a datagram.

func (d *datagram) overTCP() bool { return false }

// send sends the answer by a packet-out. It never blocks.
func (d *datagram) send(b *buffer, _ time.Time) (err error) {
	if b.frame, err = d.ends.AppendDatagram(b.frame[:0], b.answer, true); err != nil {
		return err
	}
	return d.channel.packetOut(b, d.inPort, d.tag, d.runByReader.Load())
}

// promise implements transport: a datagram has no connection to keep open.
func (d *datagram) promise(time.Duration) int { return -1 }

func (d *datagram) atDeadline(answer func()) { answer() }

func (d *datagram) release() {}
