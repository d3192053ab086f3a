// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// forwardingCeiling is a program of its own that passes each punted query on to an upstream by
// one socket, and its answer back, without looking at either but for the id: what the switch, the
// connection, the codec and a socket allow a forwarder. Its arguments are the management socket,
// the OpenFlow port of a guest on a bridge without OVN, and the address of the upstream.
func forwardingCeiling(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("forwarding-ceiling: expected SOCKET PORT UPSTREAM")
	}
	port, err := strconv.ParseUint(args[1], 10, 32)
	if err != nil {
		return err
	}
	upstream, err := net.Dial("udp", args[2])
	if err != nil {
		return err
	}
	conn, err := connectCeiling(args[0], 0x7e58)
	if err != nil {
		return err
	}
	f := &passedOn{conn: conn, upstream: upstream}
	served := make(chan error, 2)
	go func() { served <- conn.Serve(openflow.Handler{PacketIn: f.query}) }()
	go func() { served <- f.answers() }()

	return conn.hold(placement.Pipeline{Kind: placement.Table, Priority: 102}, placement.Key{Port: uint32(port)}, served)
}

// passedOn has the queries that the upstream was asked.
type passedOn struct {
	conn     *ceilingConn
	upstream net.Conn

	mu    sync.Mutex
	asked [1 << 16]askedUpstream // by the id that the upstream has; guarded by mu
	next  uint16                 // guarded by mu
}

type askedUpstream struct {
	ends   frame.Ends
	id     uint16
	inPort uint32
}

// query passes a punted query on.
func (f *passedOn) query(p *openflow.PacketIn) {
	var udp frame.UDP
	if udp.Decode(p.Data) != nil || len(udp.Payload) < 12 {
		return
	}
	f.mu.Lock()
	f.next++
	id := f.next
	f.asked[id] = askedUpstream{udp.Ends, binary.BigEndian.Uint16(udp.Payload), p.InPort}
	f.mu.Unlock()
	binary.BigEndian.PutUint16(udp.Payload, id)
	_, _ = f.upstream.Write(udp.Payload) // a full socket is a lost query, as for others
}

// answers passes the upstream's answers back, until its socket breaks.
func (f *passedOn) answers() error {
	var reply, message []byte
	for answer := make([]byte, 2048); ; {
		n, err := f.upstream.Read(answer)
		if err != nil {
			return err
		}
		if n < 12 {
			continue
		}
		f.mu.Lock()
		q := f.asked[binary.BigEndian.Uint16(answer)]
		f.mu.Unlock()
		binary.BigEndian.PutUint16(answer, q.id)
		if reply, err = q.ends.AppendDatagram(reply[:0], answer[:n], true); err != nil {
			continue
		}
		if message, err = openflow.AppendPacketOut(message[:0], f.conn.Version(), f.conn.NextXID(), q.inPort, f.conn.back, reply); err == nil {
			_ = f.conn.Write(message, openflow.Now, false)
		}
	}
}
