// SPDX-License-Identifier: Apache-2.0

package punt

import "sync"

// buffer is the memory of an answer: DNS message, frame, packet-out.
type buffer struct {
	answer, frame, message []byte
	rcode                  int // of answer, with the bits in its OPT record
	answerer               answerer
}

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

// An answer over TCP may have made b large.
func (p *bufferPool) put(b *buffer) {
	if cap(b.answer) <= maxPooled {
		p.Put(b)
	}
}

// maxPooled, in bytes, exceeds every answer over UDP.
const maxPooled = 4096
