// SPDX-License-Identifier: Apache-2.0

package tcp

import "gvisor.dev/gvisor/pkg/tcpip/header"

// sendReset tells the sender of t that it is of no connection (RFC 9293, section
// 3.10.7.1).
func sendReset(peer Peer, t header.TCP) {
	flags := t.Flags()
	if flags.Contains(header.TCPFlagAck) {
		peer.Send(reset(t.DestinationPort(), t.SourcePort(), t.AckNumber(), 0, header.TCPFlagRst))
		return
	}
	length := uint32(len(t)) - uint32(t.DataOffset())
	for _, f := range []header.TCPFlags{header.TCPFlagSyn, header.TCPFlagFin} {
		if flags.Contains(f) {
			length++
		}
	}
	peer.Send(reset(t.DestinationPort(), t.SourcePort(), 0, t.SequenceNumber()+length, header.TCPFlagRst|header.TCPFlagAck))
}

// reset is a segment that ends a connection.
func reset(src, dst uint16, sequence, ack uint32, flags header.TCPFlags) []byte {
	t := header.TCP(make([]byte, header.TCPMinimumSize))
	t.Encode(&header.TCPFields{
		SrcPort: src, DstPort: dst, SeqNum: sequence, AckNum: ack,
		DataOffset: header.TCPMinimumSize, Flags: flags,
	})
	return t
}
