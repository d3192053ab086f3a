// SPDX-License-Identifier: Apache-2.0

package metricset_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/internal/metricset"
)

// collector has a metric with a label of the set and one of its own, and one without the latter.
type collector struct {
	*metricset.Set
	rows, up *prometheus.Desc
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(c.rows, prometheus.GaugeValue, 2, "sb", "ports")
	ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, 1, "sb")
}

func TestSet(t *testing.T) {
	s := metricset.New("tested", "database")
	c := collector{s, s.Desc("rows", "Rows.", "kind"), s.Desc("up", "Up.")}
	r := prometheus.NewPedanticRegistry() // it refuses a metric that was not described
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			text := f.GetName() + ", " + f.GetHelp()
			for _, l := range m.GetLabel() {
				text += fmt.Sprintf(" %s=%s", l.GetName(), l.GetValue())
			}
			got = append(got, fmt.Sprint(text, " ", m.GetGauge().GetValue()))
		}
	}
	if want := []string{"coredns_tested_rows, Rows. database=sb kind=ports 2", "coredns_tested_up, Up. database=sb 1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
