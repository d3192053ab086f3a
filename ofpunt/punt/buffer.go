// SPDX-License-Identifier: Apache-2.0

package punt

import "sync"

// buffer is the room in which an answer grows from message to frame to
// packet-out.
type buffer struct {
	answer, frame, message []byte
	rcode                  int // of answer, with the bits that are in its OPT record
	answerer               answerer
}

// buffers is a pool of them.
var buffers bufferPool

type bufferPool struct{ sync.Pool }

func (p *bufferPool) get() *buffer {
	if b, ok := p.Get().(*buffer); ok {
		return b
	}
	return &buffer{
		answer:  make([]byte, 0, maxPayload),
		frame:   make([]byte, 0, 1536),
		message: make([]byte, 0, 2048),
	}
}

// put takes b back, unless an answer over TCP has made it large.
func (p *bufferPool) put(b *buffer) {
	if cap(b.answer) <= maxPooled {
		p.Put(b)
	}
}

// maxPooled, in bytes, is above all that goes into a datagram.
const maxPooled = 4096
