// SPDX-License-Identifier: Apache-2.0

package guests

// FailsClosed reports whether a guest gets no DNS without puntdns. l may be nil.
func (c *Config) FailsClosed(l *Limit) bool {
	if l != nil && l.FailGiven {
		return l.FailClosed
	}
	return c.FailClosed
}
