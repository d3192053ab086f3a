// SPDX-License-Identifier: Apache-2.0

package main

import (
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// turnSegment answers a TCP segment with the least that there is to say, without any state: a SYN
// with a SYN, what carries data with that data as a response, a FIN with a FIN. It returns nil for
// a mere acknowledgement.
func turnSegment(segment []byte) []byte {
	in := header.TCP(segment)
	payload := in.Payload()
	out := header.TCPFields{
		SeqNum: in.AckNumber(), AckNum: in.SequenceNumber() + uint32(len(payload)),
		DataOffset: header.TCPMinimumSize, Flags: header.TCPFlagAck, WindowSize: 65535,
	}
	switch flags := in.Flags(); {
	case flags.Contains(header.TCPFlagRst):
		return nil
	case flags.Contains(header.TCPFlagSyn):
		out.SeqNum, out.Flags = in.SequenceNumber(), out.Flags|header.TCPFlagSyn
		out.AckNum++
	case flags.Contains(header.TCPFlagFin):
		out.Flags |= header.TCPFlagFin
		out.AckNum++
	case len(payload) == 0:
		return nil
	}
	reply := header.TCP(make([]byte, header.TCPMinimumSize, header.TCPMinimumSize+len(payload)))
	reply.Encode(&out)
	const flagsAt = 2 + 2 // of the message, behind its length
	if len(payload) > flagsAt {
		payload[flagsAt] |= 0x80 // QR
	}
	return append(reply, payload...)
}

// tracked are the actions of an answer over TCP: connection tracking has to see it, as it has seen
// the query.
func tracked(version openflow.Version, in *openflow.PacketIn) []byte {
	return openflow.AppendActions(nil, version,
		openflow.CT{Zone: uint16(in.Regs[placement.RegZone])}, openflow.Output{Port: openflow.PortInPort})
}
