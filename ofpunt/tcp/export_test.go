// SPDX-License-Identifier: Apache-2.0

package tcp

// Endpoints returns how many gVisor has, the listener among them.
func (s *Stack) Endpoints() int { return len(s.gvisor.RegisteredEndpoints()) }

// Waits reports whether a message waits for room in a send buffer.
func (s *Stack) Waits() bool {
	s.unsent.mu.Lock()
	defer s.unsent.mu.Unlock()
	return s.unsent.used > 0
}

// WaitsForRoom reports whether a call of Reserve waits.
func (s *Stack) WaitsForRoom() bool {
	s.reserved.mu.Lock()
	defer s.reserved.mu.Unlock()
	return s.reserved.freed != nil
}

// Reserved returns how many bytes are reserved, and how many owners and networks have some.
func (s *Stack) Reserved() (bytes, counts int) {
	s.reserved.mu.Lock()
	defer s.reserved.mu.Unlock()
	return s.reserved.used, len(s.reserved.owners) + len(s.reserved.networks)
}
