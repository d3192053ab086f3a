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

// Channel handles the packet-ins of a connection to the switch. Only the reader calls PacketIn. Other methods are
// safe for concurrent use.
type Channel struct {
	intake    *Intake
	conn      *openflow.Conn
	probeBack func(token uint64)
	// actions of an answer without a tag
	output []byte
	// Only the reader uses segments, which is reused, and peers.
	segments packet
	peers    peers
	// queries in flight
	pending atomic.Int64
}

// NewChannel returns the channel of a connection after the handshake. The reader calls probeBack with each returned
// probe; it must not block.
func (in *Intake) NewChannel(conn *openflow.Conn, probeBack func(token uint64)) *Channel {
	return &Channel{intake: in, conn: conn, probeBack: probeBack, output: outputActions(conn, 0)}
}

// Go runs f on a worker.
func (in *Intake) Go(f func()) { in.workers.serve(function(f)) }

// Pending returns the channel's number of queries in flight.
func (c *Channel) Pending() int64 { return c.pending.Load() }

// PacketIn handles a packet-in on the reader's goroutine. It does not block or retain in.
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

// probe is a probe of the lease. It runs on a worker to test the workers. It needs no admission: guests at their
// limits must not end the lease.
type probe struct {
	channel *Channel
	server  *Server
	arrived time.Time
	token   uint64
}

func (c *Channel) probe(in *openflow.PacketIn) {
	if token, ok := frame.ParseProbe(in.Data); ok {
		c.dispatch(&probe{c, c.intake.server.Load(), time.Now(), token})
	}
}

func (c *Channel) dispatch(t task) {
	c.intake.workers.serve(t)
	c.conn.NoteDispatched()
}

func (p *probe) run() {
	if !p.server.admission.stuck(p.arrived) {
		p.channel.probeBack(p.token)
	}
}

// packetOut sends b.frame to the port of a packet-in. tag 0 pushes no tag. onReader is set on the reader's
// goroutine.
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

// outputActions returns first and the actions that send a frame to its in_port. tag 0 pushes no tag.
func outputActions(conn *openflow.Conn, tag uint16, first ...openflow.Action) []byte {
	list := first
	if tag != 0 {
		list = append(list, openflow.PushVLAN{}, openflow.SetVLAN{VID: tag})
	}
	return openflow.AppendActions(nil, conn.Version(), append(list, openflow.Output{Port: openflow.PortInPort})...)
}

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
