// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"testing"
	"time"
)

// Every query is served, by few goroutines that stay and many that do not, and
// none is left at the end: TestMain looks for them.
func TestWorkers(t *testing.T) {
	w := newWorkers()
	const n = 10000
	srv := &server{admission: newAdmission(n)}
	s := &session{tally: newTally("br-workers")}
	for range n {
		q := &query{server: srv, session: s} // of an empty message: dropped
		if reason := srv.admission.admit(q, guestKey{}, n); reason != "" {
			t.Fatal(reason)
		}
		w.serve(q)
	}
	deadline := time.After(30 * time.Second)
	for srv.admission.count.Load() > 0 || w.waiting.Load() > maxWaiting {
		select {
		case <-deadline:
			t.Fatalf("%d queries were not served, %d workers wait", srv.admission.count.Load(), w.waiting.Load())
		case <-time.After(time.Millisecond):
		}
	}
	w.end()
}
