// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// resolverMAC is locally administered, and the same on every node, so that a migrated guest keeps its neighbour
// entry.
var resolverMAC = [6]byte{0x02, 0x00, 'd', 'n', 's', 0x35}

// neighbor runs on the reader without admission: it does not block.
func (c *Channel) neighbor(in *openflow.PacketIn, onward placement.Onward) {
	var p packet
	p.init(c, c.intake.server.Load(), in, onward)
	defer p.recovered()
	var n frame.Neighbor
	if err := n.Decode(in.Data); err != nil {
		p.resumeOrDrop(refusal(err))
		return
	}
	if !p.isKnown(n.Tagged) {
		p.resumeOrDrop(metric.ReasonOrigin)
		return
	}
	// A port may have got the address since the flow was made.
	if p.guest.IsOwned(n.Target) || !p.guest.HasResolver(n.Target) {
		p.resumeOrDrop(metric.ReasonAddress)
		return
	}
	tag := p.guest.VLAN()
	if n.Tagged {
		tag = 0
	}
	b := buffers.get()
	defer buffers.put(b)
	b.frame = n.AppendReply(b.frame[:0], resolverMAC, true)
	if err := c.packetOut(b, in.InPort, tag, false); err != nil {
		p.end(metric.Dropped, metric.ReasonConnection)
		return
	}
	p.end(metric.Answered, metric.ReasonNeighbor)
}

// Announce broadcasts the resolver MAC out of an OpenFlow port for physical switches. tag 0 is no VLAN tag. The
// error is openflow.ErrQueueFull if the write queue is full.
func (c *Channel) Announce(port uint32, tag uint16) error {
	b := buffers.get()
	defer buffers.put(b)
	b.frame = frame.AppendAnnouncement(b.frame[:0], resolverMAC, frame.Tag{Tagged: tag != 0, VLAN: tag})
	actions := openflow.AppendActions(nil, c.conn.Version(), openflow.Output{Port: port})
	var err error
	if b.message, err = openflow.AppendPacketOut(b.message[:0], c.conn.Version(), c.conn.NextXID(), openflow.PortController, actions, b.frame); err != nil {
		return err
	}
	return c.conn.Write(b.message, openflow.Soon, true)
}
