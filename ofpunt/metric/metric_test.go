// SPDX-License-Identifier: Apache-2.0

package metric_test

import (
	"testing"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/metric"
)

// A tally counts by the labels that it is called with, also where it has the counter ready.
func TestTally(t *testing.T) {
	tally := metric.NewTally("br-tally")
	for _, result := range []string{metric.Answered, metric.Resumed, metric.Refused, metric.Dropped} {
		for _, reason := range []string{metric.ReasonChain, metric.ReasonDeadline} {
			tally.PacketIn(result, reason)
			tally.TCPQuery(result, reason)
			for name, v := range map[string]float64{
				"packet-ins":  testkit.Value(t, metric.PacketIns.WithLabelValues("br-tally", result, reason)),
				"TCP queries": testkit.Value(t, metric.TCPQueries.WithLabelValues("br-tally", result, reason)),
			} {
				if v != 1 {
					t.Errorf("%s: %s for %s: %v, want 1", name, result, reason, v)
				}
			}
		}
	}
}
