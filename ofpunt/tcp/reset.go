// SPDX-License-Identifier: Apache-2.0

package tcp

import "gvisor.dev/gvisor/pkg/tcpip/header"

// RFC 9293, section 3.10.7.1
func sendReset(peer Peer, t header.TCP) {
	flags := t.Flags()
	if flags.Contains(header.TCPFlagAck) {
		peer.Send(reset(t, t.AckNumber(), 0, header.TCPFlagRst))
		return
	}
	length := uint32(len(t)) - uint32(t.DataOffset())
	for _, f := range []header.TCPFlags{header.TCPFlagSyn, header.TCPFlagFin} {
		if flags.Contains(f) {
			length++
		}
	}
	peer.Send(reset(t, 0, t.SequenceNumber()+length, header.TCPFlagRst|header.TCPFlagAck))
}

func reset(t header.TCP, sequence, ack uint32, flags header.TCPFlags) []byte {
	b := header.TCP(make([]byte, header.TCPMinimumSize))
	b.Encode(&header.TCPFields{
		SrcPort: t.DestinationPort(), DstPort: t.SourcePort(), SeqNum: sequence, AckNum: ack,
		DataOffset: header.TCPMinimumSize, Flags: flags,
	})
	return b
}
