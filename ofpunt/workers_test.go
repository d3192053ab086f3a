// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"testing"
	"time"

	"github.com/miekg/dns"
)

// Every query is served, by few goroutines that stay and many that do not, and
// none is left at the end: TestMain looks for them.
func TestWorkers(t *testing.T) {
	w := newWorkers()
	const n = 10000
	srv := &server{admission: newAdmission(2 * n)}
	s := &session{tally: newTally("br-workers")}
	for range n {
		q := &query{server: srv, session: s} // of an empty message: dropped
		if reason := srv.admission.admit(q, n); reason != "" {
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

// A panic in a chain costs its query and no more, whoever serves it.
func TestPanic(t *testing.T) {
	srv := &server{admission: newAdmission(2)} // without a chain to ask
	s := &session{tally: newTally("br-panic")}
	for i := range 3 {
		q := &query{server: srv, session: s, prepared: true}
		q.request.SetQuestion("db.internal.", dns.TypeA)
		q.parsed.Store(true)
		if reason := srv.admission.admit(q, 1); reason != "" {
			t.Fatalf("query %d: %s", i, reason)
		}
		s.pending.Add(1)
		q.run()
		if !q.done.Load() {
			t.Errorf("query %d is not at its end", i)
		}
	}
	if n := s.pending.Load(); n != 0 {
		t.Errorf("%d queries pend", n)
	}
}
