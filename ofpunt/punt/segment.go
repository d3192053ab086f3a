// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"time"

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
// A paused one never goes on: whoever has the address would reset the connection.
func (c *Channel) segment(in *openflow.PacketIn, message []byte) {
	p := new(packet)
	p.init(c, c.intake.server.Load(), in, message)
	defer p.recovered()
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
	p.limit = p.server.limitOf(p)
	to := newPeer(p)
	outcome, exceeded := c.intake.tcp.Deliver(to.key(), p.limit.connections(), to, t.Segment, time.Now())
	if exceeded == share.OfOwner && p.limit != nil && p.limit.Connections > 0 {
		c.intake.bridge.Tally.LimitRefused(p.limit.Name, metric.PropertyConnections)
	}
	switch outcome {
	case tcp.Begun:
		c.intake.countConnections()
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

// peer is the guest at the other end of a TCP connection, by its last segment and what the
// switch has said of that. It is immutable.
type peer struct {
	sender
	// zone is where OVN tracks the connections of the guest; 0 without OVN. Answers have to
	// be seen there too, or what the guest sends next is none of a connection.
	zone uint16
}

func newPeer(p *packet) *peer {
	to := &peer{sender: p.sender}
	if p.server.OVN {
		to.zone = uint16(p.in.Regs[placement.RegZone])
	}
	return to
}

// key tells the connection from those of others with the same addresses and ports, and
// of the guest that had the OpenFlow port before.
func (p *peer) key() tcp.Key {
	type link struct {
		network origin.Network
		local   string
		mac     [6]byte
		vlan    uint16
	}
	of := link{network: p.origin.Network, mac: p.ends.SrcMAC, vlan: p.origin.VLAN}
	if p.owner != nil {
		of.local = p.owner.UUID
	}
	return tcp.Key{Network: p.guest.datapath, Owner: p.guest, Link: of, Src: p.ends.Src, Dst: p.ends.Dst}
}

// track is what has connection tracking see a segment to the guest, as it has seen those
// from it, and translate it back.
func (p *peer) track() []openflow.Action {
	if p.zone == 0 {
		return nil
	}
	return []openflow.Action{openflow.CT{Zone: p.zone, NAT: p.backend != p.ends.Dst}}
}

// Send implements tcp.Peer. What leaves the process goes by the connection to the switch
// that there is now, and only while others have room behind it: TCP sends it again.
func (p *peer) Send(segment []byte) {
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
	actions, err := outputActions(conn, p.tag, p.track()...)
	if err == nil {
		b.message, err = openflow.AppendPacketOut(b.message[:0], conn.Version(), conn.NextXID(), p.inPort, actions, b.frame)
	}
	if err == nil {
		err = conn.WriteBestEffort(b.message)
	}
	if err != nil {
		in.bridge.Tally.TCPSegmentLost()
	}
}
