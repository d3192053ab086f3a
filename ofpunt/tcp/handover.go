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

// The handover to gVisor is a handshake that the peer does not see. gVisor gets a SYN with the sequence number
// before the peer's next byte, and an ACK of its SYN-ACK. Then gVisor gets the unacknowledged bytes and the held
// segments. Afterwards only our sequence numbers are translated (flow.shift).

// handover is guarded by Stack.mu.
type handover struct {
	at   light.Handover
	port uint16
	// gVisor has answered the SYN
	shaken bool
	// the peer's segments for gVisor
	held [][]byte
	size int
	// total counts all bytes of the handover, acquired those of Stack.unsent.
	unsent          []byte
	total, acquired int
	// the connection must be reset
	failed bool
	done   chan struct{}
}

// The peer retransmits further segments.
const maxHeld = 16

// Stack.mu is held. After its release the caller delivers handover.syn to gVisor.
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

func (h *handover) hold(t header.TCP) {
	if len(h.held) < maxHeld && h.size+len(t) <= receiveBuffer {
		h.held = append(h.held, bytes.Clone(t))
		h.size += len(t)
	}
}

// A first message always has room.
func (h *handover) hasRoom(n int) bool { return h.total == 0 || h.total+n <= sendBuffer }

// The bytes are acquired.
func (h *handover) add(b []byte) {
	h.unsent = append(h.unsent, b...)
	h.total += len(b)
	h.acquired += len(b)
}

// awaitHandover waits as long as Conn.Send would. At the deadline it marks the connection for a reset.
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
	if f.handover == nil { // it has just ended
		return nil
	}
	f.handover.failed = true
	return ErrSlow
}

// segment has the peer's numbers.
func (h *handover) segment(flags header.TCPFlags, sequence uint32, options []byte) header.TCP {
	t := header.TCP(make([]byte, header.TCPMinimumSize, header.TCPMinimumSize+len(options)))
	t = append(t, options...)
	t.Encode(&header.TCPFields{
		SrcPort: h.port, SeqNum: sequence, AckNum: h.at.Unacknowledged,
		DataOffset: uint8(len(t)), Flags: flags, WindowSize: h.at.Window,
	})
	return t
}

// syn has the options of the peer's SYN.
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

// sendOf sends gVisor's segment to the peer. During a handover it answers the SYN-ACK for the peer.
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
		t.SetSequenceNumber(f.handover.at.Unacknowledged) // a reset in the handshake
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

// endHandover passes unsent bytes and held segments to gVisor.
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
			// before the held segments, which may acknowledge it
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

// nextOfHandover ends the handover if it has nothing more for gVisor. ok is false if the connection must be reset.
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

func (s *Stack) failHandover(f *flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.handover != nil {
		f.handover.failed = true
	}
}

// Stack.mu is held.
func (s *Stack) dropHandover(f *flow) {
	if f.handover != nil {
		if n := f.handover.acquired; n > 0 {
			s.unsent.release(f.key, n)
		}
		close(f.handover.done)
		f.handover = nil
	}
}
