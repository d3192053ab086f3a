// SPDX-License-Identifier: Apache-2.0

// Package light is the server's end of a TCP connection for one request and one response of a segment each,
// which the client closes. It is a state machine (RFC 9293, section 3.10.7): a segment, a response or the time goes
// in, and a [Step] comes out. It has no lock, no goroutine and no timer.
//
//	SYN ─► SYN-ACK    ACK ─► nothing    request ─► response, which acknowledges it
//	FIN ─► FIN-ACK    ACK ─► the end
//
// A full TCP implementation takes over a connection that needs more: a partial or a second request, segments out of
// order, a response of several segments, an idle client.
//
// The server repeats a lost segment when the client repeats its own, or after a timeout.
package light

import (
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"
)

const (
	// Window is the receive window in bytes, also of the full implementation.
	Window = 8 << 10
	// MSS, in bytes, bounds segments of the client, and to the client.
	MSS = 1340
	// MinMSS, in bytes, is the default MSS (RFC 9293, section 3.7.1). Lower values are raised, as they would turn
	// an answer into thousands of segments.
	MinMSS = header.TCPDefaultMSS
)

const (
	// First retransmission timeouts of a SYN-ACK (RFC 6298, section 2.1), and of other segments, as in Linux
	// without delay.
	handshakeTime = time.Second
	sendTime      = 200 * time.Millisecond
	// UserTimeout is how long data may stay unacknowledged (RFC 9293, section 3.8.3).
	UserTimeout = 10 * time.Second
	// AckTime delays the acknowledgement of a request without a response (RFC 1122, section 4.2.3.2). Linux
	// retransmits after 200 ms.
	AckTime = 40 * time.Millisecond
	// idleTime is after how long an idle connection is handed over, to be idle there.
	idleTime = 200 * time.Millisecond
	// challengeTime is the minimum interval of challenge ACKs (RFC 5961, section 7).
	challengeTime = 500 * time.Millisecond
)

const (
	fin = header.TCPFlagFin
	syn = header.TCPFlagSyn
	rst = header.TCPFlagRst
	psh = header.TCPFlagPsh
	ack = header.TCPFlagAck
	urg = header.TCPFlagUrg
)

// Conn is a connection from its SYN on.
type Conn struct {
	// next sequence number of the client
	next uint32
	// our SYN, the first unacknowledged byte, and the first unsent byte
	first, una, unsent uint32
	// response begins at responseAt. It is nil once acknowledged as a whole.
	response   []byte
	responseAt uint32
	// window is in bytes from una on, rawWindow as in the last segment.
	window    uint32
	rawWindow uint16
	// options of the client; mss in bytes, scale (RFC 7323, section 2.2) -1 for none
	mss   uint16
	scale int8
	sack  bool

	// our SYN is acknowledged
	established bool
	// asked: there was a request; open: it is in progress; responded: after the response
	asked, open, responded bool
	// data of the client is unacknowledged
	owesAck bool
	// FINs of the client, and ours
	heardFin, sentFin bool
	// retransmissions, and time of the first transmission
	tries  uint8
	sentAt time.Time
	// last request, its end, or the end of the handshake
	active     time.Time
	challenged time.Time
}

// Do is what the caller does after sending the segment of a Step.
type Do uint8

// The values of Do.
const (
	// Nothing further.
	Nothing Do = iota
	// Request: the payload may be a request. The caller calls Take or HandOver.
	Request
	// HandOver: hand over the connection, then the received segment, if any.
	HandOver
	// Close: both sides are closed. The FIN may need retransmission.
	Close
	// End: the connection has ended.
	End
)

// Step has a segment to send, if its flags are not 0, and what else to do.
type Step struct {
	Send Segment
	Do   Do
}

// Open begins a connection by a SYN without ACK, RST and FIN. first is our initial sequence number, which must be
// unpredictable (RFC 6528).
func Open(t header.TCP, first uint32, now time.Time) (Conn, Step) {
	o := header.ParseSynOptions(t.Options(), false)
	c := Conn{
		next: t.SequenceNumber() + 1, first: first, una: first, unsent: first + 1,
		window: uint32(t.WindowSize()), rawWindow: t.WindowSize(),
		mss: max(o.MSS, MinMSS), scale: int8(o.WS), sack: o.SACKPermitted, sentAt: now, active: now,
	}
	return c, Step{Send: c.synAck()}
}

// IsEstablished reports whether the handshake is complete.
func (c *Conn) IsEstablished() bool { return c.established }

// OwesAck reports whether Tick will send an acknowledgement after AckTime.
func (c *Conn) OwesAck() bool { return c.owesAck }

// Receive processes a segment.
func (c *Conn) Receive(t header.TCP, now time.Time) Step {
	flags, seq, payload := t.Flags(), t.SequenceNumber(), t.Payload()
	length := uint32(len(payload)) + bit(flags, fin)
	switch {
	case flags&rst != 0:
		return c.reset(seq, now)
	case flags&syn != 0 && !c.established && flags&ack == 0 && seq+1 == c.next:
		return Step{Send: c.synAck()} // the first one was lost or is late
	case flags&syn != 0:
		return c.challenge(now) // RFC 5961, section 4
	case !c.isAcceptable(seq, length):
		if length > 0 && int32(seq-c.next) < 0 {
			// The client repeats data, so our segment was lost.
			return Step{Send: c.outstanding()}
		}
		return c.challenge(now)
	case flags&ack == 0:
		return Step{}
	}
	if step, ok := c.acknowledged(t, now); !ok {
		return step
	}
	return c.text(t, now)
}

// Only a RST with the expected sequence number ends the connection (RFC 5961, section 3).
func (c *Conn) reset(seq uint32, now time.Time) Step {
	switch at := seq - c.next; {
	case at == 0:
		return Step{Do: End}
	case at < Window:
		return c.challenge(now)
	}
	return Step{}
}

// challenge limits challenge ACKs: anybody can send invalid segments.
func (c *Conn) challenge(now time.Time) Step {
	if now.Sub(c.challenged) < challengeTime {
		return Step{}
	}
	c.challenged = now
	return Step{Send: c.acknowledgement()}
}

// RFC 9293, section 3.10.7.4. length is in sequence numbers.
func (c *Conn) isAcceptable(seq, length uint32) bool {
	return seq-c.next < Window || length > 0 && seq+length-1-c.next < Window
}

// ok is false if the rest must not be read.
func (c *Conn) acknowledged(t header.TCP, now time.Time) (Step, bool) {
	number := t.AckNumber()
	if number-c.first > c.unsent-c.first || !c.established && number != c.unsent {
		// data that was never sent
		if !c.established {
			return Step{Send: Segment{Flags: rst, Seq: number}}, false
		}
		return c.challenge(now), false
	}
	if !c.established {
		c.established, c.active = true, now
	}
	if number-c.first >= c.una-c.first { // not older than another one
		if number != c.una {
			c.una, c.tries, c.sentAt = number, 0, now
		}
		c.rawWindow = t.WindowSize()
		c.window = uint32(c.rawWindow) << max(c.scale, 0)
	}
	if c.response != nil && c.una-c.responseAt >= uint32(len(c.response)) {
		c.response = nil
		c.active = now
	}
	if c.sentFin && c.una == c.unsent {
		return Step{Do: End}, false
	}
	return Step{}, true
}

func (c *Conn) text(t header.TCP, now time.Time) Step {
	flags, data := t.Flags(), len(t.Payload()) > 0
	switch {
	case flags&urg == 0 && !data && flags&fin == 0:
		return Step{} // a mere acknowledgement
	case c.heardFin:
		return c.challenge(now) // nothing follows a FIN
	case flags&urg != 0 || t.SequenceNumber() != c.next || data && c.asked || len(t.Payload()) > Window:
		return Step{Do: HandOver}
	case data:
		return Step{Do: Request}
	}
	c.next++
	c.heardFin = true
	if c.open {
		c.owe(now)
		return Step{}
	}
	return c.close(now)
}

// Take takes the segment's payload as the request. The segment may have a FIN.
func (c *Conn) Take(t header.TCP, now time.Time) {
	c.next += uint32(len(t.Payload())) + bit(t.Flags(), fin)
	c.heardFin = t.Flags()&fin != 0
	c.asked, c.open = true, true
	c.active = now
	c.owe(now)
}

// Untake undoes Take. The caller calls HandOver.
func (c *Conn) Untake(t header.TCP) {
	c.next -= uint32(len(t.Payload())) + bit(t.Flags(), fin)
	c.heardFin, c.asked, c.open, c.owesAck = false, false, false, false
}

func (c *Conn) owe(now time.Time) {
	if !c.owesAck {
		c.owesAck, c.sentAt = true, now
	}
}

// Respond sends the response, and stores it until acknowledged. A second response, or one above a segment or the
// client's window, needs HandOver. After our FIN Respond does nothing.
func (c *Conn) Respond(b []byte, now time.Time) Step {
	if c.sentFin {
		return Step{}
	}
	if c.responded || len(b) > int(min(c.mss, MSS)) || len(b) > int(c.window) {
		return Step{Do: HandOver}
	}
	c.responded = true
	c.response, c.responseAt = b, c.unsent
	c.unsent += uint32(len(b))
	c.tries, c.sentAt = 0, now
	c.owesAck = false
	return Step{Send: c.outstanding()}
}

// Done ends the request.
func (c *Conn) Done(now time.Time) Step {
	c.open, c.active = false, now
	if c.heardFin && !c.sentFin {
		return c.close(now)
	}
	return Step{}
}

// close is after the client's FIN.
func (c *Conn) close(now time.Time) Step {
	c.sentFin, c.owesAck = true, false
	s := c.acknowledgement()
	s.Flags |= fin
	c.unsent++
	c.tries, c.sentAt = 0, now
	return Step{Send: s, Do: Close}
}

// Tick does due work. Call it several times a second, and after AckTime while OwesAck.
func (c *Conn) Tick(now time.Time) Step {
	passed := now.Sub(c.sentAt)
	switch {
	case !c.established:
		if passed >= handshakeTime<<c.tries {
			c.tries++
			return Step{Send: c.synAck()}
		}
	case c.una != c.unsent:
		if passed >= UserTimeout {
			return Step{Send: c.Abort(), Do: End}
		}
		if !c.open && !c.sentFin && now.Sub(c.active) >= UserTimeout {
			return Step{Do: HandOver} // a slow client must not last
		}
		if passed >= sendTime<<c.tries {
			c.tries++
			return Step{Send: c.outstanding()}
		}
	case c.owesAck:
		if passed >= AckTime {
			c.owesAck = false
			return Step{Send: c.acknowledgement()}
		}
	case !c.open && now.Sub(c.active) >= idleTime:
		return Step{Do: HandOver}
	}
	return Step{}
}

// Abort returns the RST of an established connection.
func (c *Conn) Abort() Segment {
	return Segment{Flags: rst | ack, Seq: c.unsent, Ack: c.next}
}

// Handover is the state for the full implementation.
type Handover struct {
	// Next is the client's next sequence number, Unacknowledged our first unacknowledged one, from which Response
	// begins.
	Next, Unacknowledged uint32
	Response             []byte
	// HeardFin is set if the client's stream ends with Next.
	HeardFin bool
	// Window is of the client's last segment, unscaled. The options are of its SYN, Scale -1 for none.
	Window uint16
	MSS    uint16
	Scale  int8
	SACK   bool
}

// HandOver returns the state of an established connection before our FIN. Then the Conn must not be used.
func (c *Conn) HandOver() Handover {
	h := Handover{
		Next: c.next, Unacknowledged: c.una, HeardFin: c.heardFin,
		Window: c.rawWindow, MSS: c.mss, Scale: c.scale, SACK: c.sack,
	}
	if c.heardFin {
		h.Next--
	}
	if c.response != nil {
		h.Response = c.response[c.una-c.responseAt:]
	}
	return h
}

// A set flag takes a sequence number.
func bit(flags, flag header.TCPFlags) uint32 {
	if flags&flag != 0 {
		return 1
	}
	return 0
}
