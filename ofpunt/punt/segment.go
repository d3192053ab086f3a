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

// segment hands a punted TCP segment to the stack, which answers it. It is no query and
// needs no admission: the reader does it, and does not block. The queries that it brings need
// admission each.
//
// It is never resumed: the host at the address would reset the connection.
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

// readAt returns when the message was read that the reader deals with: to ask for the time once a read is
// enough.
func (c *Channel) readAt() time.Time {
	if at := c.conn.ReadAt(); !at.IsZero() {
		return at
	}
	return time.Now() // it came during the handshake
}

// peer is the guest at the other end of a TCP connection, by its last segment and what the
// switch has said of that. It is immutable.
type peer struct {
	sender
	// zone is the conntrack zone of the guest, 0 without OVN. conntrack has to see the answers too, or the
	// next packet of the guest belongs to no connection.
	zone uint16
	// key distinguishes the connection from others with the same addresses and ports, and from connections of
	// the guest that had the OpenFlow port before.
	key tcp.Key
	// actions are the actions of packet-outs to the peer, encoded for the version of the channel.
	actions []byte
}

// link distinguishes peers with the same addresses on one guest, and the guest from the one that had the
// OpenFlow port before.
type link struct {
	network origin.Network
	local   string
	mac     [6]byte
	vlan    uint16
}

// peers are the last ones of a channel: most segments are of the same peer as the one before of their
// connection, and most connections of the same guest as the one before.
type peers struct {
	// at has each at the place of its connection. Few of some dozens that are open share one.
	at   [512]*peer
	last *peer
}

// of returns the peer that has sent a packet.
func (known *peers) of(p *packet) *peer {
	zone := uint16(0)
	if p.server.isOVN() {
		zone = uint16(p.in.Regs[placement.RegZone])
	}
	at := &known.at[(uint32(p.ends.Src.Port())^p.inPort<<2)%uint32(len(known.at))]
	if is := *at; is == nil || is.zone != zone || is.sender != p.sender {
		*at = newPeer(p, zone, known.last)
		known.last = *at
	}
	return *at
}

// newPeer returns the peer that has sent a packet. It shares memory with another peer if possible. The other
// peer may be nil.
func newPeer(p *packet, zone uint16, other *peer) *peer {
	to := &peer{sender: p.sender, zone: zone}
	to.key = tcp.Key{Src: p.ends.Src, Dst: p.ends.Dst}
	is := to.link()
	if other != nil && other.account == p.account && other.link() == is {
		to.key.Network, to.key.Owner, to.key.Link = other.key.Network, other.key.Owner, other.key.Link
	} else {
		// The key is hashed for each segment, and a unique.Handle is hashed faster than its value.
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

// isTranslated reports whether connection tracking translates the address that the peer has asked.
func (p *peer) isTranslated() bool { return p.backend != p.ends.Dst }

// actionsFor returns the actions of what the peer is sent by a connection to the switch.
func (p *peer) actionsFor(conn *openflow.Conn) []byte {
	if p.actions != nil && p.channel.conn.Version() == conn.Version() {
		return p.actions
	}
	return outputActions(conn, p.tag, p.track()...)
}

// track is what has connection tracking see a segment to the guest, as it has seen those
// from it, and translate it back.
func (p *peer) track() []openflow.Action {
	if p.zone == 0 {
		return nil
	}
	return []openflow.Action{openflow.CT{Zone: p.zone, NAT: p.isTranslated()}}
}

// Send implements tcp.Peer. It sends by the present connection to the switch, and only while others have room
// behind it: TCP sends the segment again.
func (p *peer) Send(segment []byte) { p.send(segment, openflow.Soon, false) }

// replyTo is Send in the handler of a packet-in that the segment answers.
func replyTo(to tcp.Peer, segment []byte) {
	to.(*peer).send(segment, openflow.Soon, true) // there are no others
}

// sendLater is Send in a task of the reader.
func sendLater(to tcp.Peer, segment []byte) {
	to.(*peer).send(segment, openflow.AfterTasks, false)
}

// send sends a segment. If the segment answers a packet-in that came by the present connection to the switch,
// the reader writes it before its next read.
func (p *peer) send(segment []byte, when openflow.When, answers bool) {
	b := buffers.get()
	defer buffers.put(b)
	in := p.channel.intake
	conn := in.bridge.Conn.Load()
	if conn == nil || in.bridge.Ports.Moved(p.owner, p.inPort) {
		return
	}
	// Connection tracking knows the connection by the address of the backend, and has the
	// guest see the one that it has asked.
	ends := p.ends
	ends.Dst = p.backend
	frame, err := ends.AppendSegment(b.frame[:0], segment, true)
	if err != nil {
		return // the stack has no segments that are too long, and ends are of one family
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
