// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// urgent has the places of urgent bytes in what a peer sends. As on a Linux socket that
// does not ask for them, the byte before the urgent pointer is no part of the stream
// (tcp(7)); gVisor knows nothing of them and leaves them in.
type urgent struct {
	mu sync.Mutex
	// first is the sequence number of the stream's first byte, valid once begun is set.
	first uint32
	begun bool
	// read counts the bytes that have been read, those that were skipped included.
	read uint32
	// skip has the places of urgent bytes behind those, ascending.
	skip []uint32
}

// maxUrgent bounds the places that are remembered. A peer that has more of them under way
// has the older ones in its stream.
const maxUrgent = 16

// begins takes note of the SYN-ACK that acknowledges a peer's SYN.
func (u *urgent) begins(first uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.begun || u.first != first {
		u.first, u.begun, u.read, u.skip = first, true, 0, nil
	}
}

// note takes note of a segment with an urgent pointer. That is a positive offset to the byte
// behind the urgent data (RFC 9293, section 3.1; RFC 6093, section 4), so 0 marks nothing in
// the segment: what is not marked is the stream's. Linux takes the first byte out then, as if
// the pointer were 1; it never sends a 0 itself.
func (u *urgent) note(t header.TCP) {
	const pointerAt = 18
	pointer := uint32(t[pointerAt])<<8 | uint32(t[pointerAt+1])
	if t.Flags()&(header.TCPFlagUrg|header.TCPFlagSyn) != header.TCPFlagUrg || pointer == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	at := t.SequenceNumber() + pointer - 1 - u.first
	// What has been read already, or is not within the window, is of no segment to come.
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

// strip takes the urgent bytes out of b, which has been read, and returns how many bytes
// are left.
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
