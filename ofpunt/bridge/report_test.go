// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/metric"
)

// With lease 0 a returned probe counts as a renewal.
func TestLeaseRenewedMetric(t *testing.T) {
	for _, tt := range []struct {
		name   string
		lease  time.Duration
		report flows.Report
		moves  bool
	}{
		{"a renewal", config.DefaultLease, flows.Renewed{}, true},
		{"a renewal that fails", config.DefaultLease, flows.RenewFailed{Err: errors.New("the queue is full")}, false},
		{"a probe that renews nothing", config.DefaultLease, flows.ProbeTook{Time: time.Millisecond}, false},
		{"a probe without a lease", 0, flows.ProbeTook{Time: time.Millisecond}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := reporter{name: "br-" + t.Name(), options: &config.Bridge{Lease: tt.lease}}
			renewed := metric.LeaseRenewed.WithLabelValues(r.name)
			t.Cleanup(func() {
				metric.LeaseRenewed.DeleteLabelValues(r.name)
				metric.ProbeDuration.DeleteLabelValues(r.name)
			})
			r.report(tt.report)
			if at := testkit.Value(t, renewed); (at > 0) != tt.moves {
				t.Errorf("renewed at %v, want it set: %v", at, tt.moves)
			}
		})
	}
}
