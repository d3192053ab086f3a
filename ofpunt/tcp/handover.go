// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"encoding/binary"
	"net"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/puntdns/puntdns/ofpunt/tcp/light"
)

// A light flow is handed over to gVisor by a handshake that the peer does not see. gVisor gets a SYN with the
// number before the next byte of the peer, its SYN-ACK is not sent, and it gets an acknowledgement of the
// SYN-ACK. Then gVisor writes the bytes that the peer has not acknowledged, and gets the segments that have
// come meanwhile. After that the connection is as any other, except that gVisor has other sequence numbers
// for our bytes.

// handover is a flow that is handed over. Stack.mu guards what may change of it.
type handover struct {
	at light.Handover
	// port is the port of the peer.
	port uint16
	// shaken is set once gVisor has answered the SYN.
	shaken bool
	// held are the segments of the peer that gVisor is to get, of size bytes.
	held [][]byte
	size int
	// unsent are the bytes to send for a request. The handover has got total bytes of them. acquired of them
	// are of Stack.unsent.
	unsent          []byte
	total, acquired int
	// failed is set if some bytes could not be sent: the connection must be reset.
	failed bool
	// done is closed at the end of the handover.
	done chan struct{}
}

// maxHeld, in segments, bounds the segments of a flow that wait until gVisor takes it, beside the window in
// bytes. The peer sends further segments again.
const maxHeld = 16

// handOver begins to hand a light flow over. Stack.mu is held; when it is not any more, gVisor is
// to get handover.syn.
func (s *Stack) handOver(f *flow, now time.Time) {
	h := &handover{at: f.light.HandOver(), port: f.key.Src.Port(), done: make(chan struct{})}
	h.unsent, h.total = h.at.Response, len(h.at.Response)
	if h.at.HeardFin {
		h.hold(h.segment(header.TCPFlagFin|header.TCPFlagAck, h.at.Next, nil))
	}
	f.kind, f.handover, f.light = isHandedOver, h, light.Conn{}
	f.created, f.lastSegment = now, now
	s.byID[f.id] = f
}

// hold holds a segment of the peer, if there is room.
func (h *handover) hold(t header.TCP) {
	if len(h.held) < maxHeld && h.size+len(t) <= receiveBuffer {
		h.held = append(h.held, bytes.Clone(t))
		h.size += len(t)
	}
}

// hasRoom reports whether so many further bytes go into the send buffer, behind those that the
// handover has got before. There is always room for a first message.
func (h *handover) hasRoom(n int) bool { return h.total == 0 || h.total+n <= sendBuffer }

// add has a message sent, whose bytes were acquired.
func (h *handover) add(b []byte) {
	h.unsent = append(h.unsent, b...)
	h.total += len(b)
	h.acquired += len(b)
}

// awaitHandover waits for the end of a handover, until the deadline, but at least as long as
// Conn.Send would. The connection is reset if that passes.
func (s *Stack) awaitHandover(f *flow, over <-chan struct{}, deadline time.Time) error {
	timer := time.NewTimer(max(time.Until(deadline), minSendTimeout))
	defer timer.Stop()
	select {
	case <-over:
		return nil
	case <-s.done:
		return net.ErrClosed
	case <-timer.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.handover == nil { // it has ended just now
		return nil
	}
	f.handover.failed = true
	return ErrSlow
}

// segment is one of the peer, by its own numbers.
func (h *handover) segment(flags header.TCPFlags, sequence uint32, options []byte) header.TCP {
	t := header.TCP(make([]byte, header.TCPMinimumSize, header.TCPMinimumSize+len(options)))
	t = append(t, options...)
	t.Encode(&header.TCPFields{
		SrcPort: h.port, SeqNum: sequence, AckNum: h.at.Unacknowledged,
		DataOffset: uint8(len(t)), Flags: flags, WindowSize: h.at.Window,
	})
	return t
}

// syn is what begins the handshake, with the options of the peer's own.
func (h *handover) syn() header.TCP {
	options := make([]byte, 0, 12)
	options = binary.BigEndian.AppendUint16(append(options, header.TCPOptionMSS, header.TCPOptionMSSLength), h.at.MSS)
	if h.at.SACK {
		options = append(options, header.TCPOptionNOP, header.TCPOptionNOP, header.TCPOptionSACKPermitted, header.TCPOptionSackPermittedLength)
	}
	if h.at.Scale >= 0 {
		options = append(options, header.TCPOptionNOP, header.TCPOptionWS, header.TCPOptionWSLength, byte(h.at.Scale))
	}
	return h.segment(header.TCPFlagSyn, h.at.Next-1, options)
}

// sendOf sends a segment of gVisor to the peer of the flow with that id. It answers the SYN of a flow that is
// handed over for the peer.
func (s *Stack) sendOf(id uint64, t header.TCP) {
	isSyn := t.Flags().Contains(header.TCPFlagSyn | header.TCPFlagAck)
	s.mu.Lock()
	f := s.byID[id]
	if f == nil {
		s.mu.Unlock()
		return
	}
	var h *handover
	switch {
	case f.kind == isHandedOver && isSyn:
		h = f.handover
		h.shaken = true
		f.shift = h.at.Unacknowledged - (t.SequenceNumber() + 1)
	case f.kind == isHandedOver && !f.handover.shaken:
		t.SetSequenceNumber(f.handover.at.Unacknowledged) // a reset in the place of the handshake
	default:
		t.SetSequenceNumber(t.SequenceNumber() + f.shift)
	}
	s.mu.Unlock()
	if isSyn {
		f.urgent.begins(t.AckNumber())
	}
	if h == nil {
		f.peer().Send(t)
		return
	}
	s.deliver(f, h.segment(header.TCPFlagAck, h.at.Next, nil))
}

// endHandover has gVisor go on where the light flow stood, if the flow was one. Its connection is
// accepted.
func (s *Stack) endHandover(f *flow) {
	for {
		unsent, held, ok := s.nextOfHandover(f)
		if !ok {
			_ = f.conn.slow()
			return
		}
		if len(unsent) == 0 && len(held) == 0 {
			return
		}
		if len(unsent) > 0 {
			// Before what may acknowledge it.
			if rest, err := f.conn.write(unsent); err != nil || len(rest) > 0 {
				s.failHandover(f)
				continue
			}
		}
		for _, t := range held {
			s.deliver(f, t)
		}
	}
}

// nextOfHandover takes what gVisor is to get next of a flow that is handed over. Nothing is the end
// of the handover. It reports whether the connection goes on.
func (s *Stack) nextOfHandover(f *flow) (unsent []byte, held [][]byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.kind != isHandedOver || f.removed {
		return nil, nil, true
	}
	h := f.handover
	unsent, held = h.unsent, h.held
	h.unsent, h.held, h.size = nil, nil, 0
	if !h.failed && (len(unsent) > 0 || len(held) > 0) {
		return unsent, held, true
	}
	s.dropHandover(f)
	f.kind = isWhole
	return nil, nil, !h.failed
}

// failHandover records that the connection must be reset.
func (s *Stack) failHandover(f *flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.handover != nil {
		f.handover.failed = true
	}
}

// dropHandover releases what a handover has acquired. Stack.mu is held.
func (s *Stack) dropHandover(f *flow) {
	if f.handover != nil {
		if n := f.handover.acquired; n > 0 {
			s.unsent.release(f.key, n)
		}
		close(f.handover.done)
		f.handover = nil
	}
}
