// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"errors"
	"net/netip"
	"runtime/debug"
	"sync/atomic"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// sender is who has sent a packet.
type sender struct {
	// channel is the connection to the switch that the packet came by.
	channel *Channel
	// account is whom the limits are for. limit is the limit of the guest by its label when the packet comes,
	// nil for none.
	account account
	limit   *guests.Limit
	// owner has the OpenFlow port inPort; nil if that is not known.
	owner  *vswitch.Interface
	inPort uint32
	// ends are the addresses of the frame, with the Dst to which the guest has sent it: a load balancer may
	// have rewritten Dst.
	ends frame.Ends
	// backend is the destination of the frame. It differs from ends if a load balancer has rewritten it.
	backend netip.AddrPort
	// origin is valid once identify has reported so.
	origin origin.Origin
	// tag is the VLAN id that a packet-out pushes, since OVN has stripped the tag of a container; 0 for none.
	tag uint16
}

// packet is one packet-in. Nothing of it is used again for another: plugins may keep the
// writer of an exchange, and an answer must never reach another guest.
type packet struct {
	sender
	server *Server
	// guest is who has sent the packet, valid if known is set. It has a snapshot of the databases, which
	// must not be kept for long: forget ends it.
	guest guests.Guest
	known bool
	in    openflow.PacketIn
	// onward is where the packet goes on when it is resumed.
	onward placement.Onward
	// claimed is set by the caller that resumes the packet, or deals with it otherwise.
	claimed atomic.Bool
	// runByReader is set while the reader of the connection runs the query that the packet
	// brings.
	runByReader atomic.Bool
}

var (
	errDone         = errors.New("the punted query has been answered already")
	errNotResumable = errors.New("the punted query may not be resumed")
)

// init sets p up for a packet-in, and looks up who has sent it.
func (p *packet) init(c *Channel, s *Server, in *openflow.PacketIn, onward placement.Onward) {
	p.channel, p.server, p.in, p.onward, p.inPort = c, s, *in, onward, in.InPort
	bridge := &c.intake.bridge
	p.owner = s.Guests.Owner(bridge.Ports, in.InPort)
	p.account = accountOf(s.Guests.Placement, in, p.owner)
	p.guest, p.known = guests.At(s.Guests, s.snapshot(), bridge.Ports.View()).Sender(in, p.owner)
	if p.known && len(s.Guests.Limits) > 0 {
		p.origin = p.guest.Origin(in.InPort)
		p.limit = s.Guests.LimitOf(&p.origin)
		p.origin = origin.Origin{} // nothing of the frame is known yet
	}
}

// isKnown reports whether the sender is known. tagged is set if the frame has a VLAN tag.
func (p *packet) isKnown(tagged bool) bool { return p.known && (!tagged || p.guest.MaySendTagged()) }

// forget gives up the snapshot of the databases by which the sender is known.
func (p *packet) forget() { p.guest = guests.Guest{} }

// setEnds takes the ends of the frame.
func (p *packet) setEnds(ends frame.Ends, proto uint8) {
	p.ends, p.backend = ends, ends.Dst
	if p.server.isOVN() {
		p.ends.Dst = placement.Asked(&p.in, proto, p.backend)
	}
}

// isToResolver reports whether the packet is for a resolver address of its sender: a flow that
// is about to be removed may have punted it to another. With a load balancer, either of the
// address that was asked and the one that it was rewritten to will do.
func (p *packet) isToResolver() bool {
	return p.guest.Answers(p.ends.Dst) || p.backend != p.ends.Dst && p.guest.Answers(p.backend)
}

// identify fills in the origin. It reports whether the sender is known.
func (p *packet) identify() bool {
	if !p.isKnown(p.ends.Tagged) {
		return false
	}
	o := &p.origin
	*o = p.guest.Origin(p.inPort)
	o.Bridge, o.MAC, o.Destination, o.Hijacked = p.channel.intake.bridge.Name, p.ends.SrcMAC, p.ends.Dst, p.server.hijack()
	p.tag = o.VLAN
	if p.ends.Tagged {
		// The tag is still on the frame, so it is the guest's own business.
		o.VLAN, p.tag = p.ends.VLAN, 0
	}
	return true
}

// claim reports whether the caller is the first to deal with the packet.
func (p *packet) claim() bool { return p.claimed.CompareAndSwap(false, true) }

// resumable reports whether the packet may go on to its own destination.
func (p *packet) resumable() bool { return p.onward != placement.Nowhere }

// resume gives the packet back to the switch, on to its own destination.
func (p *packet) resume() error {
	if !p.resumable() {
		return errNotResumable
	}
	if !p.claim() {
		return errDone
	}
	b, conn := buffers.get(), p.channel.conn
	defer buffers.put(b)
	var err error
	if b.message, err = p.in.AppendResume(b.message[:0], conn.Version(), conn.NextXID(), uint8(p.onward)); err != nil {
		return err
	}
	return p.channel.write(b.message, p.runByReader.Load())
}

// resumeOrDrop resumes the packet if that may be, and drops it otherwise.
func (p *packet) resumeOrDrop(reason string) {
	switch tally := p.channel.intake.bridge.Tally; {
	case !p.resumable():
		p.end(metric.Dropped, reason)
	case p.resume() != nil:
		tally.PacketIn(metric.Dropped, metric.ReasonConnection)
	default:
		tally.PacketIn(metric.Resumed, reason)
	}
}

// end counts the outcome of the packet, unless the packet has been dealt with.
func (p *packet) end(result, reason string) {
	if p.claim() {
		p.channel.intake.bridge.Tally.PacketIn(result, reason)
	}
}

// recovered drops the packet after a panic. Defer it.
func (p *packet) recovered() {
	if r := recover(); r != nil {
		p.server.logPanic(p.channel.intake.bridge.Name, r)
		p.end(metric.Dropped, metric.ReasonPanic)
	}
}

// logPanic logs the first panic of the server. A metric has all.
func (s *Server) logPanic(bridge string, r any) {
	if !s.panicked.Swap(true) {
		log.Errorf("Recovered from a panic over a punt of bridge %s, further ones are counted: %v\n%s", bridge, r, debug.Stack())
	}
}

// refusal is the label of an error of the frame package.
func refusal(err error) string {
	var r frame.Refusal
	if errors.As(err, &r) {
		return string(r)
	}
	return metric.ReasonMalformed
}
