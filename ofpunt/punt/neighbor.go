// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// resolverMAC is the hardware address of the resolver addresses, on every switch
// and node alike, so that a guest that migrates keeps its neighbour entry. It is
// locally administered.
var resolverMAC = [6]byte{0x02, 0x00, 'd', 'n', 's', 0x35}

// neighbor answers an ARP request or a neighbour solicitation for a resolver address. It is
// no query and needs no admission: the reader answers it, and does not block.
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

// Announce broadcasts a frame from the hardware address of the resolver addresses out of an
// OpenFlow port, with a VLAN tag unless tag is 0. The physical switches behind the port learn where
// the address is. The error is openflow.ErrQueueFull where too much waits for the switch already.
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
