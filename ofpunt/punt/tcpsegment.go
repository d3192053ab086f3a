// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"time"
	"unique"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/refusals"
	"github.com/puntdns/puntdns/ofpunt/share"
	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// segment runs on the reader without blocking. Only queries need admission. A segment is never resumed: the host at
// the address would reset the connection.
func (c *Channel) segment(in *openflow.PacketIn) {
	p := &c.segments
	*p = packet{}
	p.init(c, c.intake.server.Load(), in, placement.Nowhere)
	defer p.recovered()
	defer p.forget()
	var t frame.TCP
	if err := t.Decode(in.Data); err != nil {
		p.end(metric.Dropped, refusal(err))
		return
	}
	p.setEnds(t.Ends, placement.ProtoTCP)
	if !p.identify() {
		p.end(metric.Dropped, metric.ReasonOrigin)
		return
	}
	if !p.isToResolver() {
		p.end(metric.Dropped, metric.ReasonAddress)
		return
	}
	if c.intake.tcp == nil {
		p.end(metric.Dropped, metric.ReasonSegment)
		return
	}
	to := c.peers.of(p)
	outcome, exceeded := c.intake.tcp.Deliver(to.key, maxConnections(p.limit), to, t.Segment, c.readAt())
	if exceeded == share.OfOwner && p.limit != nil && p.limit.Connections > 0 {
		c.intake.bridge.Tally.LimitRefused(p.limit.Name, metric.PropertyConnections)
	}
	switch outcome {
	case tcp.Begun:
		c.intake.countConnections()
		p.end(metric.Taken, metric.ReasonSegment)
	case tcp.Passed:
		c.conn.NoteDispatched()
		p.end(metric.Taken, metric.ReasonSegment)
	case tcp.Delivered:
		p.end(metric.Taken, metric.ReasonSegment)
	case tcp.Reset:
		p.end(metric.Refused, metric.ReasonNoConnection)
	case tcp.Full:
		p.refused(refusals.Connections)
		p.end(metric.Refused, metric.ReasonConnections)
	case tcp.Dropped:
		p.refused(refusals.Connections)
		p.end(metric.Dropped, metric.ReasonConnections)
	case tcp.Ignored:
		p.end(metric.Dropped, metric.ReasonSegment)
	}
}

// readAt avoids a time.Now for each segment.
func (c *Channel) readAt() time.Time {
	if at := c.conn.ReadAt(); !at.IsZero() {
		return at
	}
	return time.Now() // it came during the handshake
}

// peer is the guest end of a TCP connection as of its last segment. It is immutable.
type peer struct {
	sender
	// zone is the guest's conntrack zone, 0 without OVN. conntrack must see the answers, or the guest's next packet
	// is invalid.
	zone uint16
	// key distinguishes guests with the same addresses and ports, and successive guests of an OpenFlow port.
	key tcp.Key
	// actions of packet-outs, for the version of the channel
	actions []byte
}

// link distinguishes peers of one guest with the same addresses, and successive guests of an OpenFlow port.
type link struct {
	network origin.Network
	local   string
	mac     [6]byte
	vlan    uint16
}

type peers struct {
	// table is direct-mapped by a hash of the connection.
	table [512]*peer
	last  *peer
}

func (known *peers) of(p *packet) *peer {
	zone := uint16(0)
	if p.server.isOVN() {
		zone = uint16(p.in.Regs[placement.RegZone])
	}
	at := &known.table[(uint32(p.ends.Src.Port())^p.inPort<<2)%uint32(len(known.table))]
	if is := *at; is == nil || is.zone != zone || is.sender != p.sender {
		*at = newPeer(p, zone, known.last)
		known.last = *at
	}
	return *at
}

// newPeer shares memory with other, which may be nil.
func newPeer(p *packet, zone uint16, other *peer) *peer {
	to := &peer{sender: p.sender, zone: zone}
	to.key = tcp.Key{Src: p.ends.Src, Dst: p.ends.Dst}
	is := to.link()
	if other != nil && other.account == p.account && other.link() == is {
		to.key.Network, to.key.Owner, to.key.Link = other.key.Network, other.key.Owner, other.key.Link
	} else {
		// Each segment hashes the key; a unique.Handle is faster than its value.
		to.key.Network, to.key.Owner, to.key.Link = p.account.network, p.account, unique.Make(is)
	}
	if other != nil && other.zone == zone && other.tag == p.tag && other.isTranslated() == to.isTranslated() {
		to.actions = other.actions
	} else {
		to.actions = to.actionsFor(p.channel.conn)
	}
	return to
}

func (p *peer) link() link {
	of := link{network: p.origin.Network, mac: p.ends.SrcMAC, vlan: p.origin.VLAN}
	if p.owner != nil {
		of.local = p.owner.UUID
	}
	return of
}

func (p *peer) isTranslated() bool { return p.backend != p.ends.Dst }

func (p *peer) actionsFor(conn *openflow.Conn) []byte {
	if p.actions != nil && p.channel.conn.Version() == conn.Version() {
		return p.actions
	}
	return outputActions(conn, p.tag, p.track()...)
}

// track lets conntrack see a segment to the guest, and reverse NAT.
func (p *peer) track() []openflow.Action {
	if p.zone == 0 {
		return nil
	}
	return []openflow.Action{openflow.CT{Zone: p.zone, NAT: p.isTranslated()}}
}

// Send implements tcp.Peer. It drops the segment if the queue is nearly full: TCP retransmits.
func (p *peer) Send(segment []byte) { p.send(segment, openflow.Soon, false) }

// replyTo is Send in the handler of the answered packet-in.
func replyTo(to tcp.Peer, segment []byte) {
	to.(*peer).send(segment, openflow.Soon, true) // the only implementation
}

// sendLater is Send in a task of the reader.
func sendLater(to tcp.Peer, segment []byte) {
	to.(*peer).send(segment, openflow.AfterTasks, false)
}

// The reader writes an answer to a packet-in of the current connection before its next read.
func (p *peer) send(segment []byte, when openflow.When, answers bool) {
	b := buffers.get()
	defer buffers.put(b)
	in := p.channel.intake
	conn := in.bridge.Conn.Load()
	if conn == nil || in.bridge.Ports.Moved(p.owner, p.inPort) {
		return
	}
	// Conntrack knows the backend's address, and translates it to the asked address.
	ends := p.ends
	ends.Dst = p.backend
	frame, err := ends.AppendSegment(b.frame[:0], segment, true)
	if err != nil {
		return // the segments of the stack fit, and ends are of one family
	}
	b.frame = frame
	b.message, err = openflow.AppendPacketOut(b.message[:0], conn.Version(), conn.NextXID(), p.inPort, p.actionsFor(conn), b.frame)
	if answers && conn == p.channel.conn {
		when = openflow.AfterHandlers
	}
	if err == nil {
		err = conn.Write(b.message, when, true)
	}
	if err != nil {
		in.bridge.Tally.TCPSegmentLost()
	}
}
