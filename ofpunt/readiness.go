// SPDX-License-Identifier: Apache-2.0

package ofpunt

import "sync/atomic"

// readiness is whether a bridge is served, and if not, why. It is safe for concurrent
// use. The zero value is not ready.
type readiness struct {
	// reason is empty while the bridge is served.
	reason atomic.Pointer[string]
}

// set makes the bridge ready with an empty reason, and else not ready for that.
func (r *readiness) set(reason string) { r.reason.Store(&reason) }

// why is what the bridge waits for, empty if for nothing.
func (r *readiness) why() string {
	if reason := r.reason.Load(); reason != nil {
		return *reason
	}
	return "the switch is not connected yet"
}
