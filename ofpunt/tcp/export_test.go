// SPDX-License-Identifier: Apache-2.0

package tcp

// Endpoints is how many gVisor has, the listener among them.
func (s *Stack) Endpoints() int { return len(s.gvisor.RegisteredEndpoints()) }

// Waits reports whether something that is sent waits for room.
func (s *Stack) Waits() bool {
	s.waiting.mu.Lock()
	defer s.waiting.mu.Unlock()
	return s.waiting.held > 0
}

// WaitsForRoom reports whether somebody waits for room to read.
func (s *Stack) WaitsForRoom() bool {
	s.reading.mu.Lock()
	defer s.reading.mu.Unlock()
	return s.reading.freed != nil
}

// Reserved is how many bytes are reserved for reading, and how many counts there are of
// them.
func (s *Stack) Reserved() (bytes, counts int) {
	s.reading.mu.Lock()
	defer s.reading.mu.Unlock()
	return s.reading.held, len(s.reading.owners) + len(s.reading.networks)
}
