// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"

	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// ipv4ProtoAt is where a frame without a VLAN tag has the protocol of its IPv4 header.
const ipv4ProtoAt = 14 + 9

// ceiling is a program of its own that turns each punted query round as it is,
// but for the bit that makes it a response, and TCP segments likewise: what the switch, the
// connection and the codec allow. Its arguments are the management socket, the OpenFlow table of
// the DNS stage and the tunnel keys of a guest.
func ceiling(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("ceiling: expected SOCKET TABLE DATAPATH PORT")
	}
	var n [3]uint64
	for i, s := range args[1:] {
		var err error
		if n[i], err = strconv.ParseUint(s, 10, 32); err != nil {
			return err
		}
	}
	conn, err := connectCeiling(args[0], 0x7e57)
	if err != nil {
		return err
	}
	var udp frame.UDP
	var tcp frame.TCP
	var reply, message []byte
	write := func(message []byte) {
		_ = conn.Write(message, openflow.Soon, false) // a full queue is a lost answer, as for puntdns
		conn.NoteDispatched()                         // the writer has it
	}
	turnTCP := func(p *openflow.PacketIn) {
		if tcp.Decode(p.Data) != nil {
			return
		}
		segment := turnSegment(tcp.Segment)
		if segment == nil {
			return
		}
		if reply, err = tcp.AppendSegment(reply[:0], segment, false); err != nil {
			return
		}
		if message, err = openflow.AppendPacketOut(message[:0], conn.Version(), conn.NextXID(), p.InPort, tracked(conn.Version(), p), reply); err == nil {
			write(message)
		}
	}
	turn := func(p *openflow.PacketIn) {
		if len(p.Data) > ipv4ProtoAt && p.Data[ipv4ProtoAt] == placement.ProtoTCP {
			turnTCP(p)
			return
		}
		if udp.Decode(p.Data) != nil || len(udp.Payload) < 12 {
			return
		}
		udp.Payload[2] |= 0x80 // QR
		if reply, err = udp.AppendDatagram(reply[:0], udp.Payload, false); err != nil {
			return
		}
		if message, err = openflow.AppendPacketOut(message[:0], conn.Version(), conn.NextXID(), p.InPort, conn.back, reply); err == nil {
			write(message)
		}
	}
	served := make(chan error, 1)
	go func() { served <- conn.Serve(openflow.Handler{PacketIn: turn}) }()

	return conn.hold(placement.Pipeline{Kind: placement.OVN, Table: uint8(n[0])}, placement.Key{Datapath: uint32(n[1]), Port: uint32(n[2])}, served)
}
