// SPDX-License-Identifier: Apache-2.0

package bridge

import "sync/atomic"

// readiness is whether a bridge is served, and if not, why. It is safe for concurrent
// use. The zero value is not ready.
type readiness struct {
	// current is why the bridge is not served: empty while it is, nil before the first set.
	current atomic.Pointer[string]
}

// set sets why the bridge is not served. An empty reason makes it ready.
func (r *readiness) set(reason string) { r.current.Store(&reason) }

// reason returns why the bridge is not served, empty if it is.
func (r *readiness) reason() string {
	if reason := r.current.Load(); reason != nil {
		return *reason
	}
	return "the switch is not connected yet"
}
