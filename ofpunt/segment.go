// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// segment hands a punted TCP segment to the stack of the bridge, which answers it. A
// paused one never goes on: whoever has the address would reset the connection.
func (q *query) segment() {
	var t frame.TCP
	if err := t.Decode(q.punt.Data); err != nil {
		q.drop(refusal(err))
		return
	}
	if q.ends = t.Ends; !q.identify() {
		q.drop(reasonOrigin)
		return
	}
	b := q.session.bridge
	if b.tcp == nil {
		q.drop(reasonSegment)
		return
	}
	if !q.done.CompareAndSwap(false, true) {
		return
	}
	p := newPeer(q)
	switch b.tcp.Deliver(p.key(), p, t.Segment, q.arrived) {
	case tcp.Begun:
		b.countConnections()
		q.count(taken, reasonSegment)
	case tcp.Taken:
		q.count(taken, reasonSegment)
	case tcp.Reset:
		q.count(refused, reasonNoConnection)
	case tcp.Full:
		q.count(refused, reasonConnections)
	case tcp.Ignored:
		q.count(dropped, reasonSegment)
	}
}

func (b *bridge) countConnections() {
	connections.WithLabelValues(b.name).Set(float64(b.tcp.Connections()))
}

// peer is the guest at the other end of a TCP connection, as its last segment and the
// switch have told. It is immutable.
type peer struct {
	session *session
	origin  origin.Origin
	guest   guestKey
	local   *vswitch.Interface
	inPort  uint32
	ends    frame.Ends
	tag     uint16
	// zone is where OVN tracks the connections of the guest. Answers have to be seen
	// there too, or what the guest sends next is none of a connection.
	zone uint16
}

func newPeer(q *query) *peer {
	p := &peer{
		session: q.session, origin: q.origin, guest: q.asking, local: q.local,
		inPort: q.punt.InPort, ends: q.ends, tag: q.tag,
	}
	p.origin.Resumer = nil // that is of one packet
	if q.server.options.Placement == placement.OVN {
		p.zone = uint16(q.punt.Regs[placement.RegZone])
	}
	return p
}

// key tells the connection from those of others with the same addresses and ports, and
// of the guest that had the OpenFlow port before.
func (p *peer) key() tcp.Key {
	type apart struct {
		network origin.Network
		local   string
		mac     [6]byte
		vlan    uint16
	}
	of := apart{network: p.origin.Network, mac: p.ends.SrcMAC, vlan: p.origin.VLAN}
	if p.local != nil {
		of.local = p.local.UUID
	}
	return tcp.Key{Network: p.guest.datapath, Owner: p.guest, Link: of, Src: p.ends.Src, Dst: p.ends.Dst}
}

// Send implements tcp.Peer. What leaves the process goes by the connection to the switch
// that there is now, and only while others have room behind it: TCP sends it again.
func (p *peer) Send(segment []byte) {
	b := buffers.get()
	defer buffers.put(b)
	bridge := p.session.bridge
	conn := bridge.conn.Load()
	if conn == nil || bridge.moved(p.local, p.inPort) {
		return
	}
	frame, err := p.ends.AppendSegment(b.frame[:0], segment, true)
	if err != nil {
		return // the stack has no segments that are too long, and ends are of one family
	}
	b.frame = frame
	actions, err := answerActions(conn, p.tag, p.zone)
	if err == nil {
		b.message, err = openflow.AppendPacketOut(b.message[:0], conn.Version(), conn.NextXID(), p.inPort, actions, b.frame)
	}
	if err == nil {
		err = conn.WriteSpare(b.message)
	}
	if err != nil {
		segmentsLost.WithLabelValues(bridge.name).Inc()
	}
}
