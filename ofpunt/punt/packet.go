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

type sender struct {
	channel *Channel
	// limit is the guest's limit by label, nil for none.
	account account
	limit   *guests.Limit
	// nil if unknown
	owner  *vswitch.Interface
	inPort uint32
	// Dst is as the guest sent it, before any load balancer.
	ends frame.Ends
	// Destination of the frame, after any load balancer.
	backend netip.AddrPort
	// valid once identify has reported true
	origin origin.Origin
	// VLAN id that a packet-out pushes, 0 for none: OVN has stripped the tag of a container.
	tag uint16
}

// packet is one packet-in. It is never reused: plugins may retain the writer, and no answer may reach another
// guest.
type packet struct {
	sender
	server *Server
	// guest is valid if known, until forget. It refers to a database snapshot.
	guest guests.Guest
	known bool
	in    openflow.PacketIn
	// onward is the destination of a resume.
	onward  placement.Onward
	claimed atomic.Bool
}

var (
	errDone         = errors.New("the punted query has been answered already")
	errNotResumable = errors.New("the punted query may not be resumed")
)

func (p *packet) init(c *Channel, s *Server, in *openflow.PacketIn, onward placement.Onward) {
	p.channel, p.server, p.in, p.onward, p.inPort = c, s, *in, onward, in.InPort
	bridge := &c.intake.bridge
	p.owner = s.Guests.Owner(bridge.Ports, in.InPort)
	p.account = accountOf(s.Guests.Placement, in, p.owner)
	p.guest, p.known = guests.At(s.Guests, s.snapshot(), bridge.Ports.View()).Sender(in, p.owner)
	if p.known && len(s.Guests.Limits) > 0 {
		p.origin = p.guest.Origin(in.InPort)
		p.limit = s.Guests.LimitOf(&p.origin)
		p.origin = origin.Origin{} // the frame is not decoded yet
	}
}

// tagged is set if the frame has a VLAN tag.
func (p *packet) isKnown(tagged bool) bool { return p.known && (!tagged || p.guest.MaySendTagged()) }

// forget releases the database snapshot.
func (p *packet) forget() { p.guest = guests.Guest{} }

func (p *packet) setEnds(ends frame.Ends, proto uint8) {
	p.ends, p.backend = ends, ends.Dst
	if p.server.isOVN() {
		p.ends.Dst = placement.Asked(&p.in, proto, p.backend)
	}
}

// isToResolver checks the destination before and after load balancing. An outdated flow may have punted the packet.
func (p *packet) isToResolver() bool {
	return p.guest.Answers(p.ends.Dst) || p.backend != p.ends.Dst && p.guest.Answers(p.backend)
}

// identify sets the origin. It reports whether the sender is known.
func (p *packet) identify() bool {
	if !p.isKnown(p.ends.Tagged) {
		return false
	}
	o := &p.origin
	*o = p.guest.Origin(p.inPort)
	o.Bridge, o.MAC, o.Destination, o.Hijacked = p.channel.intake.bridge.Name, p.ends.SrcMAC, p.ends.Dst, p.server.hijack()
	if p.server.Guests.Egress != nil {
		o.Opener = &opener{p.channel.intake, p.guest.Key}
	}
	p.tag = o.VLAN
	if p.ends.Tagged {
		// The guest has tagged the frame itself.
		o.VLAN, p.tag = p.ends.VLAN, 0
	}
	return true
}

func (p *packet) claim() bool { return p.claimed.CompareAndSwap(false, true) }

func (p *packet) resumable() bool { return p.onward != placement.Nowhere }

// resume writes with the reader's next write if onReader is set.
func (p *packet) resume(onReader bool) error {
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
	return p.channel.write(b.message, onReader)
}

func (p *packet) resumeOrDrop(reason string) {
	switch tally := p.channel.intake.bridge.Tally; {
	case !p.resumable():
		p.end(metric.Dropped, reason)
	case p.resume(false) != nil:
		tally.PacketIn(metric.Dropped, metric.ReasonConnection)
	default:
		tally.PacketIn(metric.Resumed, reason)
	}
}

func (p *packet) end(result, reason string) {
	if p.claim() {
		p.channel.intake.bridge.Tally.PacketIn(result, reason)
	}
}

// Defer it.
func (p *packet) recovered() {
	if r := recover(); r != nil {
		p.server.logPanic(p.channel.intake.bridge.Name, r)
		p.end(metric.Dropped, metric.ReasonPanic)
	}
}

// logPanic logs the first panic.
func (s *Server) logPanic(bridge string, r any) {
	if !s.panicked.Swap(true) {
		log.Errorf("Recovered from a panic over a punt of bridge %s, further ones are counted: %v\n%s", bridge, r, debug.Stack())
	}
}

// refusal returns the metric reason of a frame package error.
func refusal(err error) string {
	var r frame.Refusal
	if errors.As(err, &r) {
		return string(r)
	}
	return metric.ReasonMalformed
}
