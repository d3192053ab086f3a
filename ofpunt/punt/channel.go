// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// Channel takes the packet-ins of one connection to the switch, and sends their packet-outs. Only the reader
// of the connection calls PacketIn. All other methods are safe for concurrent use.
type Channel struct {
	intake *Intake
	conn   *openflow.Conn
	// probeBack gets each probe of the lease that comes back.
	probeBack func(token uint64)
	// output has the encoded actions of an answer without a tag.
	output []byte
	// segments is the packet of the last segment, and peers are the peers of the last segments. Only the
	// reader uses them.
	segments packet
	peers    peers
	// pending counts the queries that came by this connection and are in flight.
	pending atomic.Int64
}

// NewChannel returns the channel of a connection whose handshake is done. The channel calls probeBack with
// each probe that comes back. probeBack must not block.
func (in *Intake) NewChannel(conn *openflow.Conn, probeBack func(token uint64)) *Channel {
	return &Channel{intake: in, conn: conn, probeBack: probeBack, output: outputActions(conn, 0)}
}

// Pending returns how many queries that came by the channel are in flight.
func (c *Channel) Pending() int64 { return c.pending.Load() }

// PacketIn takes a packet-in on the reader's goroutine. It does not block, and keeps nothing of
// in.
func (c *Channel) PacketIn(in *openflow.PacketIn) {
	onward, ok := placement.ReadUserData(in.UserData)
	if !ok {
		c.intake.bridge.Tally.PacketIn(metric.Dropped, metric.ReasonForeign)
		return
	}
	in.UserData = nil
	kind := frame.KindOf(in.Data)
	if kind == frame.KindProbe && in.InPort == openflow.PortController {
		c.probe(in)
		return
	}
	c.intake.arrived.Add(1)
	switch {
	case kind == frame.KindARP, kind == frame.KindICMPv6:
		c.neighbor(in, onward)
	case kind == frame.KindTCP:
		c.segment(in)
	default:
		c.query(in, onward)
	}
}

// probe is a probe of the lease. A worker returns it, so that it shows whether queries get
// through. It needs no admission, or guests that use the limits up would end the lease.
type probe struct {
	channel *Channel
	server  *Server
	arrived time.Time
	token   uint64
}

// probe takes a probe of the lease on the reader's goroutine.
func (c *Channel) probe(in *openflow.PacketIn) {
	if token, ok := frame.ParseProbe(in.Data); ok {
		c.dispatch(&probe{c, c.intake.server.Load(), time.Now(), token})
	}
}

// dispatch leaves to a worker what the reader is not to do by itself.
func (c *Channel) dispatch(t task) {
	c.intake.workers.serve(t)
	c.conn.NoteDispatched()
}

// run reports the probe to the lease, unless the chains are stuck.
func (p *probe) run() {
	if !p.server.admission.stuck(p.arrived) {
		p.channel.probeBack(p.token)
	}
}

// packetOut sends b.frame to where a packet came from, with a VLAN tag pushed unless tag
// is 0. OnReader is set while the reader runs what sends it.
func (c *Channel) packetOut(b *buffer, inPort uint32, tag uint16, onReader bool) error {
	actions, err := c.output, error(nil)
	if tag != 0 {
		actions = outputActions(c.conn, tag)
	}
	if b.message, err = openflow.AppendPacketOut(b.message[:0], c.conn.Version(), c.conn.NextXID(), inPort, actions, b.frame); err != nil {
		return err
	}
	return c.write(b.message, onReader)
}

// outputActions returns the encoded actions that send a frame back to where it came from,
// after the actions first. A tag other than 0 is pushed.
func outputActions(conn *openflow.Conn, tag uint16, first ...openflow.Action) []byte {
	list := first
	if tag != 0 {
		list = append(list, openflow.PushVLAN{}, openflow.SetVLAN{VID: tag})
	}
	return openflow.AppendActions(nil, conn.Version(), append(list, openflow.Output{Port: openflow.PortInPort})...)
}

// write sends a message, together with others where there are any.
func (c *Channel) write(message []byte, onReader bool) error {
	when := openflow.Soon
	switch {
	case onReader:
		when = openflow.AfterTasks
	case c.pending.Load() <= 1:
		when = openflow.Now
	}
	return c.conn.Write(message, when, false)
}
