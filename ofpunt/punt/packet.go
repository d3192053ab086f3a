// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io"
	"net/netip"
	"runtime/debug"
	"sync/atomic"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// sender is who has sent a packet.
type sender struct {
	// channel is the connection to the switch that the packet came by.
	channel *Channel
	// guest is whom the limits are for. limit is what it has in the place of those for all
	// when the packet comes, nil for none.
	guest guestKey
	limit *Limit
	// owner has the OpenFlow port inPort; nil if that is not known.
	owner  *vswitch.Interface
	inPort uint32
	// ends are those of the frame, but that Dst is where the guest has sent it: a load
	// balancer may have rewritten that.
	ends frame.Ends
	// backend is the destination of the frame: that of ends, unless a load balancer has
	// rewritten it.
	backend netip.AddrPort
	// origin is valid once identify has reported so.
	origin origin.Origin
	// tag is the VLAN id that is pushed onto what is sent back, as OVN has stripped that of
	// a container; 0 for none.
	tag uint16
}

// packet is one packet-in. Nothing of it is used again for another: plugins may keep the
// writer of an exchange, and an answer must never reach another guest.
type packet struct {
	sender
	server *Server
	in     openflow.PacketIn
	// onward is where the packet goes on when it is resumed.
	onward placement.Onward
	// claimed is set by whoever resumes the packet, or deals with it otherwise.
	claimed atomic.Bool
	// runByReader is set while the reader of the connection runs the query that the packet
	// brings.
	runByReader atomic.Bool
}

var (
	errDone         = errors.New("the punted query has been answered already")
	errNotResumable = errors.New("the punted query may not be resumed")
)

// init sets p up for a packet-in, and looks up who owns the port that it came by.
func (p *packet) init(c *Channel, s *Server, in *openflow.PacketIn, onward placement.Onward) {
	p.channel, p.server, p.in, p.onward, p.inPort = c, s, *in, onward, in.InPort
	p.owner = p.ownerNow()
	if s.OVN {
		p.guest = guestKey{uint32(in.Metadata), in.Regs[placement.RegInPort]}
		if mac, ok := p.externalMAC(); ok {
			p.guest.port = externalOf(p.guest.port, mac)
		}
	} else {
		p.guest = guestKey{networkOf(p.owner), in.InPort}
	}
}

// ownerNow returns who owns the port that the packet came by, nil if that is not known.
func (p *packet) ownerNow() *vswitch.Interface {
	if p.server.OVN {
		return p.channel.intake.bridge.Ports.Owner(p.inPort)
	}
	return p.channel.intake.bridge.Ports.DrainedOwner(p.inPort)
}

// networkOf is a number for the network of an interface, which stands for the tunnel
// key of OVN's; that of one without a network is its own. Two networks may share one,
// and then share their part of the limit in all.
func networkOf(i *vswitch.Interface) uint32 {
	if i == nil {
		return 0
	}
	of := i.NetworkID
	if of == "" {
		of = i.IfaceID
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, of) // never fails, package hash
	return h.Sum32()
}

// externalMAC returns the address by which an external port is told from others with the same
// localnet port. It reports whether the packet is from such a port.
func (p *packet) externalMAC() (mac [6]byte, ok bool) {
	if !p.server.OVN || p.owner == nil || p.owner.Localnet == "" {
		return mac, false
	}
	return frame.SenderMAC(p.in.Data)
}

// externalOf is a number for an external port, which has a localnet port in common with
// others. Two that share one are counted as one guest, though each has its own limit.
func externalOf(localnet uint32, mac [6]byte) uint32 {
	h := fnv.New32a()
	_, _ = h.Write(binary.BigEndian.AppendUint32(mac[:], localnet)) // never fails, package hash
	return h.Sum32()
}

// setEnds takes the ends of the frame.
func (p *packet) setEnds(ends frame.Ends, proto uint8) {
	p.ends, p.backend = ends, ends.Dst
	if p.server.OVN {
		p.ends.Dst = placement.Asked(&p.in, proto, p.backend)
	}
}

// isToResolver reports whether the packet is for a resolver address of its sender: a flow that
// is about to be removed may have punted it to another. With a load balancer, either of the
// address that was asked and the one that it was rewritten to will do.
func (p *packet) isToResolver() bool {
	return p.server.isResolver(&p.in, p.owner, p.ends.Dst) ||
		p.backend != p.ends.Dst && p.server.isResolver(&p.in, p.owner, p.backend)
}

// identify fills in the origin. It reports whether the sender is known.
func (p *packet) identify() bool {
	g, ok := p.server.Identify(&p.in, p.owner, p.ends.Tagged)
	if !ok {
		return false
	}
	p.origin = origin.Origin{
		Bridge:      p.channel.intake.bridge.Name,
		InPort:      p.inPort,
		VLAN:        g.Tag,
		Network:     g.Network,
		Switch:      g.Switch,
		Port:        g.Port,
		Attributes:  g.Attributes,
		MAC:         p.ends.SrcMAC,
		Destination: p.ends.Dst,
		Hijacked:    p.server.hijack(),
	}
	p.tag = g.Tag
	if p.ends.Tagged {
		// The tag is still on the frame, so it is the guest's own business.
		p.origin.VLAN, p.tag = p.ends.VLAN, 0
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

// end counts what has become of the packet, unless somebody else has dealt with it.
func (p *packet) end(result, reason string) {
	if p.claim() {
		p.channel.intake.bridge.Tally.PacketIn(result, reason)
	}
}

// recovered drops the packet after a panic. It is to be deferred.
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
