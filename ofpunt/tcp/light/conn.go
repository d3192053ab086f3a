// SPDX-License-Identifier: Apache-2.0

// Package light is the server's end of a TCP connection that is made for one request and one
// response, each of one segment, and that the client closes. It is a step machine (RFC 9293,
// section 3.10.7): a segment, a response, or the time go in, and what is to be done comes out. It
// has no lock, no goroutine and no timer.
//
// Whatever is more than that is handed over to a whole implementation of TCP, from where the
// connection stands: a segment that is no whole request, a second one, what comes out of
// order, a response that does not go into one segment, a client that says nothing for a while.
//
//	SYN ─► SYN-ACK    ACK ─► nothing    request ─► response, which acknowledges it
//	FIN ─► FIN-ACK    ACK ─► the end
//
// So the server sends three segments. What is lost is sent again when the client sends its part
// again, and otherwise after a time: a response that was acknowledged late leaves the client
// nothing to repeat.
package light

import (
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"
)

const (
	// Window, in bytes, is what the client may send: the window of the implementation that may take the
	// connection over.
	Window = 8 << 10
	// MSS, in bytes, is of the segments that the client may send, and the most of those
	// that it is sent.
	MSS = 1340
	// MinMSS, in bytes, is the MSS of a client without the option (RFC 9293, section 3.7.1), and the least
	// MSS: a lower one would turn an answer into thousands of segments.
	MinMSS = header.TCPDefaultMSS
)

const (
	// handshakeTime is the time until the SYN-ACK is sent again for the first time, and sendTime the time for
	// all other segments: as in RFC 6298, section 2.1, and in Linux on a link without delay.
	handshakeTime = time.Second
	sendTime      = 200 * time.Millisecond
	// UserTimeout is how long the client may leave what it is sent unacknowledged (RFC 9293,
	// section 3.8.3).
	UserTimeout = 10 * time.Second
	// AckTime is after how long a request that has no response yet is acknowledged (RFC 1122,
	// section 4.2.3.2): well before the client sends it again, which is after 200 ms with Linux.
	AckTime = 40 * time.Millisecond
	// idleTime is the time after which an idle connection is handed over: the other implementation knows how
	// long it may last.
	idleTime = 200 * time.Millisecond
	// challengeTime is between two segments that answer what does not fit the connection (RFC 5961,
	// section 7).
	challengeTime = 500 * time.Millisecond
)

// Flags of segments.
const (
	fin = header.TCPFlagFin
	syn = header.TCPFlagSyn
	rst = header.TCPFlagRst
	psh = header.TCPFlagPsh
	ack = header.TCPFlagAck
	urg = header.TCPFlagUrg
)

// Conn is one connection, from its SYN on.
type Conn struct {
	// next is the sequence number that the client is to send next.
	next uint32
	// first is the sequence number of our SYN, una the first number without an acknowledgement, and unsent
	// the first number that was not sent.
	first, una, unsent uint32
	// response is what of ours is not acknowledged as a whole, beginning with the number
	// responseAt; nil for none.
	response   []byte
	responseAt uint32
	// window, in bytes, is what the client has room for behind una. rawWindow is how its last
	// segment has said so.
	window    uint32
	rawWindow uint16
	// mss, in bytes, is the MSS of the client; scale is how many bits its window is shifted by, -1 without a
	// window scale (RFC 7323, section 2.2); sack is set if it permits SACK.
	mss   uint16
	scale int8
	sack  bool

	// established is set once our SYN is acknowledged.
	established bool
	// asked is set once there was a request, open while that is worked on, and responded once it
	// has a response.
	asked, open, responded bool
	// owesAck is set if the client does not know that something has come.
	owesAck bool
	// heardFin is set once the client has closed its side, sentFin once we have closed ours.
	heardFin, sentFin bool
	// tries is how often what is unacknowledged was sent again; sentAt is when it was sent for
	// the first time.
	tries  uint8
	sentAt time.Time
	// active is when a request came or was dealt with, or the handshake ended.
	active time.Time
	// challenged is when a segment that does not fit was last answered.
	challenged time.Time
}

// Do is what is to be done with a connection beside sending a segment.
type Do uint8

// What is to be done.
const (
	// Nothing further.
	Nothing Do = iota
	// Request: the payload may be a request. Take or HandOver has to follow.
	Request
	// HandOver: the connection is to be handed over, and then the segment, if it was one that
	// has led to this.
	HandOver
	// Close: both sides are closed; the client may still have to be sent the FIN again.
	Close
	// End: there is no connection any more.
	End
)

// Step is what comes out of a step: a segment to send, unless its flags are 0, and what else to do.
type Step struct {
	Send Segment
	Do   Do
}

// Open begins a connection by a SYN that has neither ACK, RST nor FIN. first is our first sequence number,
// which no host may guess (RFC 6528).
func Open(t header.TCP, first uint32, now time.Time) (Conn, Step) {
	o := header.ParseSynOptions(t.Options(), false)
	c := Conn{
		next: t.SequenceNumber() + 1, first: first, una: first, unsent: first + 1,
		window: uint32(t.WindowSize()), rawWindow: t.WindowSize(),
		mss: max(o.MSS, MinMSS), scale: int8(o.WS), sack: o.SACKPermitted, sentAt: now, active: now,
	}
	return c, Step{Send: c.synAck()}
}

// IsEstablished reports whether the handshake is done.
func (c *Conn) IsEstablished() bool { return c.established }

// OwesAck reports whether the client waits for an acknowledgement, which Tick gives after AckTime.
func (c *Conn) OwesAck() bool { return c.owesAck }

// Receive takes a segment of the client.
func (c *Conn) Receive(t header.TCP, now time.Time) Step {
	flags, seq, payload := t.Flags(), t.SequenceNumber(), t.Payload()
	length := uint32(len(payload)) + bit(flags, fin)
	switch {
	case flags&rst != 0:
		return c.reset(seq, now)
	case flags&syn != 0 && !c.established && flags&ack == 0 && seq+1 == c.next:
		return Step{Send: c.synAck()} // ours was lost, or is late
	case flags&syn != 0:
		return c.challenge(now) // RFC 5961, section 4
	case !c.isAcceptable(seq, length):
		if length > 0 && int32(seq-c.next) < 0 {
			// What comes again says that ours was lost.
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

// reset takes a RST. Only one with the very number that is due is taken for the client's (RFC 5961,
// section 3).
func (c *Conn) reset(seq uint32, now time.Time) Step {
	switch at := seq - c.next; {
	case at == 0:
		return Step{Do: End}
	case at < Window:
		return c.challenge(now)
	}
	return Step{}
}

// challenge answers a segment that does not fit by where the connection stands, unless another one was
// just answered so: what anybody may send without end is not to be answered as often.
func (c *Conn) challenge(now time.Time) Step {
	if now.Sub(c.challenged) < challengeTime {
		return Step{}
	}
	c.challenged = now
	return Step{Send: c.acknowledgement()}
}

// isAcceptable reports whether a segment of so many sequence numbers is in our window (RFC 9293,
// section 3.10.7.4).
func (c *Conn) isAcceptable(seq, length uint32) bool {
	return seq-c.next < Window || length > 0 && seq+length-1-c.next < Window
}

// acknowledged takes the acknowledgement and the window of a segment. It reports whether the rest
// of the segment counts.
func (c *Conn) acknowledged(t header.TCP, now time.Time) (Step, bool) {
	number := t.AckNumber()
	if number-c.first > c.unsent-c.first || !c.established && number != c.unsent {
		// It acknowledges what was never sent.
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

// text takes what a segment has of the client's stream: data, and its end.
func (c *Conn) text(t header.TCP, now time.Time) Step {
	flags, data := t.Flags(), len(t.Payload()) > 0
	switch {
	case flags&urg == 0 && !data && flags&fin == 0:
		return Step{} // a mere acknowledgement
	case c.heardFin:
		return c.challenge(now) // nothing comes behind a FIN
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

// Take takes the payload of the segment for a request, which is worked on from now on. A FIN may be in
// the same segment.
func (c *Conn) Take(t header.TCP, now time.Time) {
	c.next += uint32(len(t.Payload())) + bit(t.Flags(), fin)
	c.heardFin = t.Flags()&fin != 0
	c.asked, c.open = true, true
	c.active = now
	c.owe(now)
}

// Untake takes Take back: the payload was none. HandOver has to follow.
func (c *Conn) Untake(t header.TCP) {
	c.next -= uint32(len(t.Payload())) + bit(t.Flags(), fin)
	c.heardFin, c.asked, c.open, c.owesAck = false, false, false, false
}

func (c *Conn) owe(now time.Time) {
	if !c.owesAck {
		c.owesAck, c.sentAt = true, now
	}
}

// Respond sends the response, which it keeps until it is acknowledged. A response that needs more
// than one segment, or than the client has room for, or that is not the first, makes HandOver. Once
// our side is closed nothing comes of a response.
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

// Done says that the request has been dealt with.
func (c *Conn) Done(now time.Time) Step {
	c.open, c.active = false, now
	if c.heardFin && !c.sentFin {
		return c.close(now)
	}
	return Step{}
}

// close closes our side, behind that of the client.
func (c *Conn) close(now time.Time) Step {
	c.sentFin, c.owesAck = true, false
	s := c.acknowledgement()
	s.Flags |= fin
	c.unsent++
	c.tries, c.sentAt = 0, now
	return Step{Send: s, Do: Close}
}

// Tick does the work that is due. Call it several times a second, and after AckTime while OwesAck reports so.
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
			return Step{Do: HandOver} // it is acknowledged bit by bit, and that must not last
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

// Abort returns the RST that ends the connection at the client, which is established.
func (c *Conn) Abort() Segment {
	return Segment{Flags: rst | ack, Seq: c.unsent, Ack: c.next}
}

// Handover is where a connection stands that is handed over.
type Handover struct {
	// Next is the sequence number of the next byte of the client, and Unacknowledged the first of ours
	// without an acknowledgement. Response, not nil if it was sent and not acknowledged, begins with that
	// number.
	Next, Unacknowledged uint32
	Response             []byte
	// HeardFin is set if the stream of the client ends with Next.
	HeardFin bool
	// Window is what the last segment of the client has said, not scaled; the others are what its SYN
	// has said, Scale is -1 for none.
	Window uint16
	MSS    uint16
	Scale  int8
	SACK   bool
}

// HandOver returns where the connection stands. It is established, our side is not closed, and it
// is not to be used any more.
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

// bit is 1 if the flag is set, as that takes a sequence number.
func bit(flags, flag header.TCPFlags) uint32 {
	if flags&flag != 0 {
		return 1
	}
	return 0
}
