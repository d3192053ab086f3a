// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/testkit/golden"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// replacedSwitch has the punt of a process started in the far future.
type replacedSwitch struct {
	flows.Switch
	update func(openflow.FlowUpdate)
}

func (s *replacedSwitch) MonitorFlows(context.Context, uint32, uint8) error {
	s.update(openflow.FlowUpdate{
		Event: openflow.FlowInitial, Table: placement.PrivateTable, Priority: placement.PriorityLease,
		Match: openflow.NewMatch(), Cookie: 0x70646effffffff00,
	})
	return nil
}

func (*replacedSwitch) Barrier(context.Context) error { return nil }

// A yielding process has no guests in its metrics, so a sum over processes counts each guest once.
func TestYieldInMetrics(t *testing.T) {
	s, _ := pairSession(t, func() {})
	gauges := []*prometheus.GaugeVec{metric.Flows, metric.Guests, metric.Retained, metric.Unserved}
	for _, g := range gauges {
		g.WithLabelValues(s.bridge.name).Set(3)
	}
	for _, replaced := range []bool{false, true} {
		// The first connection gives the process its generation.
		sw := &replacedSwitch{update: func(openflow.FlowUpdate) {}}
		s.flows = flows.NewReconciler(sw, &s.bridge.flows, s.reporter.report)
		if replaced {
			sw.update = s.flows.FlowUpdate
		}
		if err := s.reconcile(t.Context(), s.bridge.current.Load()); err != nil || s.flows.Yielding() != replaced {
			t.Fatalf("yielding %v, want %v; %v", s.flows.Yielding(), replaced, err)
		}
	}
	golden.Check(t, s.bridge.readiness.reason())
	for i, g := range gauges {
		if got := testkit.Value(t, g.WithLabelValues(s.bridge.name)); got != 0 {
			t.Errorf("gauge %d is %v", i, got)
		}
	}
}
