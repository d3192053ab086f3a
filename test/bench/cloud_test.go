// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
)

// What too few values speak for has no row in the report.
func TestFewestSamples(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		values               []float64
		median, percentile99 []float64 // as rows
	}{
		{"none", nil, nil, nil},
		{"one", []float64{.087}, nil, nil},
		{"one too few", []float64{4, 1, 3, 2}, nil, nil},
		{"enough", []float64{9, 1, 3, 2, 4}, []float64{3}, []float64{9}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &cloud{b: &bench{}, version: &openvswitch{}}
			const peer = "10 puntdns"
			c.putQuantiles(tCloudGuest, tCloudGuest99, peer, tt.values)
			if len(tt.values) > 0 {
				c.back(peer, answer{Seconds: tt.values}, &clients{count: len(tt.values)})
			}
			for table, want := range map[string][]float64{tCloudGuest: tt.median, tCloudGuest99: tt.percentile99, tCloudBack: tt.median} {
				if got := c.b.report.measured(table).values[peer]; !slices.Equal(got, want) {
					t.Errorf("%s: %v instead of %v", table, got, want)
				}
			}
			if tt.median == nil && slices.ContainsFunc(c.b.report.tables, func(m *table) bool { return m.name == tCloudGuest }) {
				t.Errorf("a table without a row: %s", tCloudGuest)
			}
		})
	}
}
