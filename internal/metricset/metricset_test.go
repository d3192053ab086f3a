// SPDX-License-Identifier: Apache-2.0

package metricset_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/coredns/coredns/core/dnsserver"

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

func TestQueryCounter(t *testing.T) {
	c := metricset.New("tested").QueryCounter("queries_total", "Queries.", "outcome", "zone")
	at := func(server, view string) context.Context {
		ctx := context.WithValue(t.Context(), dnsserver.Key{}, &dnsserver.Server{Addr: server})
		return context.WithValue(ctx, dnsserver.ViewKey{}, view)
	}
	for range 2 {
		c.Inc(at("dns://:53", "inside"), "nodata", "a.")
	}
	c.Inc(at("dns://:53", "inside"), "nodata", "b.")
	c.Inc(at("dns://:54", ""), "nodata", "a.")
	c.Inc(t.Context(), "nodata", "a.")
	var got []string
	for _, s := range testkit.Collect(t, c) {
		got = append(got, fmt.Sprint(s.Labels, " ", s.Value))
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{
		"map[outcome:nodata server: view: zone:a.] 1",
		"map[outcome:nodata server:dns://:53 view:inside zone:a.] 2",
		"map[outcome:nodata server:dns://:53 view:inside zone:b.] 1",
		"map[outcome:nodata server:dns://:54 view: zone:a.] 1",
	}, got); diff != "" {
		t.Error(diff)
	}
	ctx := at("dns://:53", "inside")
	if n := testing.AllocsPerRun(100, func() { c.Inc(ctx, "nodata", "a.") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
