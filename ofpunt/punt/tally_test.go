// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"slices"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/punttest"
	"github.com/puntdns/puntdns/ofpunt/refusals"
)

// Who was turned away, and by which property, is told by the port, and counted by network where
// that is asked for.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name       string
		limits     []guests.Limit
		concurrent int
		ofGuest    int
		want       string
		property   string
	}{
		{"by the limit of a guest", nil, 4096, 1, `port "b" of switch "b" was refused 1 queries over max_concurrent`, metric.PropertyConcurrent},
		{"by a limit of its label", []guests.Limit{{Name: "b", Concurrent: 1, ConcurrentGuest: 1}}, 4096, 1, `port "b" of switch "b" was refused 1 queries over max_concurrent`, metric.PropertyConcurrent},
		{"by what its network may have", nil, 1, 2, `port "b" of switch "b" was refused 1 queries by overload of its network or all`, metric.PropertyOverload},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newLimitRig(t, nil)
			var ledger refusals.Ledger
			b := &r.channel.intake.bridge
			b.Refusals = &ledger
			b.Tally.SetNetworks(map[metric.Network]struct{}{{Switch: "b"}: {}})
			t.Cleanup(func() { b.Tally.SetNetworks(nil) })
			r.serveWith(func(c *Config) { c.Concurrent, c.ConcurrentGuest = tt.concurrent, tt.ofGuest }, tt.limits...)
			send(t, r.peer, puntFrom(6, punttest.QueryFrame()))
			testkit.Eventually(t, "in the chain", func() bool { return r.channel.Pending() == 1 })
			if got := ledger.Lines(time.Now()); len(got) > 0 {
				t.Errorf("%q before anything was refused", got)
			}
			send(t, r.peer, puntFrom(6, punttest.QueryFrame()))
			packetOut(t, r.peer) // SERVFAIL
			testkit.Eventually(t, "counted", func() bool {
				return testkit.Sum(t, "coredns_ofpunt_network_queries_total", "result", metric.Refused) == 1
			})
			if got := ledger.Lines(time.Now()); !slices.Equal(got, []string{tt.want}) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if n := testkit.Sum(t, "coredns_ofpunt_network_refused_total", "property", tt.property); n != 1 {
				t.Errorf("%v refused by %s, want 1", n, tt.property)
			}
			if n := testkit.Sum(t, "coredns_ofpunt_network_queries_total", "result", metric.Answered); n != 0 {
				t.Errorf("%v answered", n)
			}
		})
	}
}
