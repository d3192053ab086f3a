// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"testing"
	"time"

	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// Every query is served, by few goroutines that stay and many that do not, and
// none is left at the end: TestMain looks for them.
func TestWorkers(t *testing.T) {
	w := newWorkers()
	const n = 10000
	srv := NewServer(Config{Concurrent: 2 * n})
	c := &Channel{intake: newIntake(Bridge{Name: bridgeName, Tally: metric.NewTally(bridgeName)}, nil)}
	for range n {
		d := &datagram{packet: packet{server: srv, sender: sender{channel: c}}} // of an empty frame: dropped
		d.exchange.init(srv, d, &d.sender)
		if reason := srv.admission.admit(&d.exchange, n); reason != "" {
			t.Fatal(reason)
		}
		w.serve(d)
	}
	deadline := time.After(30 * time.Second)
	for srv.InFlight() > 0 || w.waiting.Load() > maxWaiting {
		select {
		case <-deadline:
			t.Fatalf("%d queries were not served, %d workers wait", srv.InFlight(), w.waiting.Load())
		case <-time.After(time.Millisecond):
		}
	}
	w.end()
}

// A panic in a chain costs its query and no more, whoever serves it.
func TestPanic(t *testing.T) {
	for _, tt := range []struct {
		name   string
		reader bool
	}{{"by the reader", true}, {"by a worker", false}} {
		t.Run(tt.name, func(t *testing.T) {
			c, peer := newChannel(t)
			guestIs(c.intake, "1")
			s := serve(c.intake, nil, func(c *Config) { c.FromMemory, c.ConcurrentGuest = tt.reader, 1 }) // without a chain to ask
			before := packetIns(t, metric.Dropped, metric.ReasonPanic)
			for i := range 3 {
				if _, err := peer.Write(punttest.Punt(punttest.QueryFrame())); err != nil {
					t.Fatal(err)
				}
				await(t, "counted", func() bool { return packetIns(t, metric.Dropped, metric.ReasonPanic) == before+i+1 })
				await(t, "out of flight", func() bool { return s.InFlight() == 0 && c.Pending() == 0 })
			}
		})
	}
}
