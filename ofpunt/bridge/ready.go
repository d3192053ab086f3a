// SPDX-License-Identifier: Apache-2.0

package bridge

import "sync/atomic"

// readiness is safe for concurrent use. The zero value is not ready.
type readiness struct {
	// current is why the bridge is not served, empty if it is, nil before the first set.
	current atomic.Pointer[string]
}

func (r *readiness) set(reason string) { r.current.Store(&reason) }

func (r *readiness) reason() string {
	if reason := r.current.Load(); reason != nil {
		return *reason
	}
	return "the switch is not connected yet"
}
