// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"fmt"
	"testing"

	"github.com/puntdns/puntdns/internal/testkit"
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
	testkit.Eventually(t, "all queries are served", func() error {
		if n, waiting := srv.InFlight(), w.waiting.Load(); n > 0 || waiting > maxWaiting {
			return fmt.Errorf("%d queries were not served, %d workers wait", n, waiting)
		}
		return nil
	})
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
				testkit.Eventually(t, "counted", func() bool { return packetIns(t, metric.Dropped, metric.ReasonPanic) == before+i+1 })
				testkit.Eventually(t, "out of flight", func() bool { return s.InFlight() == 0 && c.Pending() == 0 })
			}
		})
	}
}
