// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Value returns the value of a counter or a gauge.
func Value(t testing.TB, m prometheus.Metric) float64 {
	t.Helper()
	var of dto.Metric
	if err := m.Write(&of); err != nil {
		t.Fatal(err)
	}
	return valueOf(&of)
}

func valueOf(m *dto.Metric) float64 { return m.GetCounter().GetValue() + m.GetGauge().GetValue() }

// Series is a counter or a gauge with its labels.
type Series struct {
	Name, Help string
	Labels     map[string]string
	Value      float64
}

// Gather returns all series of a gatherer, sorted by name and labels.
func Gather(t testing.TB, from prometheus.Gatherer) (all []Series) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			all = append(all, Series{f.GetName(), f.GetHelp(), labels, valueOf(m)})
		}
	}
	return all
}

// Collect returns all series of a collector, which must have described them.
func Collect(t testing.TB, c prometheus.Collector) []Series {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	return Gather(t, r)
}

// Sum returns the sum of the series that the process has of a metric, with all of the labels, which are
// names followed by their values.
func Sum(t testing.TB, metric string, labels ...string) (sum float64) {
	t.Helper()
	for _, s := range Gather(t, prometheus.DefaultGatherer) {
		fits := s.Name == metric
		for i := 0; i < len(labels); i += 2 {
			fits = fits && s.Labels[labels[i]] == labels[i+1]
		}
		if fits {
			sum += s.Value
		}
	}
	return sum
}
