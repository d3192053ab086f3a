// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// urgent has the positions of a peer's urgent bytes. As on Linux without SO_OOBINLINE (tcp(7)), the byte before the
// urgent pointer is not part of the stream; gVisor ignores the pointer.
type urgent struct {
	mu sync.Mutex // guards all below
	// the stream's first sequence number, valid if begun
	first uint32
	begun bool
	// bytes read, with skipped ones
	read uint32
	// unread positions relative to first, ascending
	skip []uint32
}

// Of more unread urgent bytes, the first ones stay in the stream.
const maxUrgent = 16

// first is the SYN-ACK's acknowledgement number. It may be retransmitted.
func (u *urgent) begins(first uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.begun || u.first != first {
		u.first, u.begun, u.read, u.skip = first, true, 0, nil
	}
}

// The pointer is an offset to the byte after the urgent data (RFC 9293, section 3.1; RFC 6093, section 4), so 0
// marks nothing. Linux treats 0 as 1, and never sends 0.
func (u *urgent) note(t header.TCP) {
	const pointerAt = 18
	pointer := uint32(t[pointerAt])<<8 | uint32(t[pointerAt+1])
	if t.Flags()&(header.TCPFlagUrg|header.TCPFlagSyn) != header.TCPFlagUrg || pointer == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	at := t.SequenceNumber() + pointer - 1 - u.first
	// Read positions and positions beyond the window are ignored.
	if !u.begun || at-u.read > 2*receiveBuffer {
		return
	}
	i := 0
	for i < len(u.skip) && u.skip[i]-u.read < at-u.read {
		i++
	}
	if i < len(u.skip) && u.skip[i] == at {
		return
	}
	u.skip = append(u.skip[:i], append([]uint32{at}, u.skip[i:]...)...)
	if len(u.skip) > maxUrgent {
		u.skip = u.skip[1:]
	}
}

// strip removes the urgent bytes, and returns the remaining length.
func (u *urgent) strip(b []byte) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n, removed := uint32(len(b)), 0
	for len(u.skip) > 0 && u.skip[0]-u.read < n {
		i := int(u.skip[0]-u.read) - removed
		b = append(b[:i], b[i+1:]...)
		removed++
		u.skip = u.skip[1:]
	}
	u.read += n
	return len(b)
}
