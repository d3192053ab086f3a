// SPDX-License-Identifier: Apache-2.0

package metricset_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/metricset"
	"github.com/puntdns/puntdns/internal/testkit"
)

func TestSet(t *testing.T) {
	s := metricset.New("tested")
	rows, syncs := s.ScrapedGauge("rows", "Rows.", "database", "kind"), s.ScrapedCounter("syncs_total", "Syncs.", "database")
	read := s.Collector(func(to metricset.Scrape) {
		to.Put(rows, 2, "sb", "ports")
		to.Put(syncs, metricset.Flag(true), "sb")
	})
	want := []testkit.Series{
		{Name: "coredns_tested_rows", Help: "Rows.", Labels: map[string]string{"database": "sb", "kind": "ports"}, Value: 2},
		{Name: "coredns_tested_syncs_total", Help: "Syncs.", Labels: map[string]string{"database": "sb"}, Value: 1},
	}
	if diff := cmp.Diff(want, testkit.Collect(t, read)); diff != "" {
		t.Error(diff)
	}
}
