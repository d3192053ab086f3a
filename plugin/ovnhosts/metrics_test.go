// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/testkit"
)

func TestJoinGauges(t *testing.T) {
	earlier, later := time.Unix(1000, 0), time.Unix(2000, 0)
	up, down := ovndb.DatabaseStatus{Database: "OVN_Southbound", Synced: true}, ovndb.DatabaseStatus{Database: "OVN_Southbound", Err: errors.New("refused")}
	saved, northbound := down, ovndb.DatabaseStatus{Database: "OVN_Northbound", Synced: true}
	saved.Saved = earlier
	isUp, isSaved := map[string]bool{"OVN_Southbound": true}, map[string]bool{"OVN_Southbound": true}
	for _, tt := range []struct {
		name      string
		a, b      gauges
		up, saved map[string]bool // the databases for which it is so
		want      gauges          // but for the status
	}{
		{"both are up", gauges{status: ovndb.Status{up}, snapshot: earlier}, gauges{status: ovndb.Status{up}, snapshot: later}, isUp, nil, gauges{snapshot: earlier}},
		{"one is down", gauges{status: ovndb.Status{up}}, gauges{status: ovndb.Status{down}}, nil, nil, gauges{}},
		{"one has a saved snapshot", gauges{status: ovndb.Status{up}}, gauges{status: ovndb.Status{saved}}, nil, isSaved, gauges{}},
		{"one has no snapshot yet", gauges{status: ovndb.Status{up}, snapshot: later}, gauges{status: ovndb.Status{up}}, isUp, nil, gauges{snapshot: later}},
		{"one reads a database more", gauges{status: ovndb.Status{up}}, gauges{status: ovndb.Status{up, northbound}}, map[string]bool{"OVN_Southbound": true, "OVN_Northbound": true}, nil, gauges{}},
		{"one reads more rows", gauges{stats: ovn.Stats{Networks: 1, Ports: 4, Rows: 2, Names: 9, Rebuild: 1}}, gauges{stats: ovn.Stats{Networks: 5, Ports: 3, Rows: 8, Names: 7, Rebuild: 6}},
			nil, nil, gauges{stats: ovn.Stats{Networks: 5, Ports: 4, Rows: 8, Names: 9, Rebuild: 6}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, joined := range []gauges{tt.a.join(tt.b), tt.b.join(tt.a)} {
				for _, d := range joined.status {
					if d.Synced != tt.up[d.Database] || !d.Saved.IsZero() != tt.saved[d.Database] {
						t.Errorf("%+v, want up %v, saved %v", d, tt.up, tt.saved)
					}
				}
				if !joined.snapshot.Equal(tt.want.snapshot) {
					t.Errorf("the snapshot is of %v, want %v", joined.snapshot, tt.want.snapshot)
				}
				if diff := cmp.Diff(tt.want.stats, joined.stats); diff != "" {
					t.Error(diff)
				}
			}
			if len(tt.a.status) > 0 && !tt.a.status[0].Synced {
				t.Error("join has changed its argument")
			}
		})
	}
}

// Two configurations that read one database in different ways share their series: counters are sums that
// never fall, while one of the two is reloaded and after both have ended. The status has both.
func TestSourcesOfOneDatabase(t *testing.T) {
	server := ovsdbtest.Start(t, "/usr/share/ovn/ovn-sb.ovsschema")
	local := ovndb.Config{Southbound: []string{server.Endpoint}}
	all := local
	all.Monitor = ovndb.All
	series := func() map[string]float64 { return seriesOf(t, server.Endpoint) }
	open := func(c ovndb.Config) *ovndb.Source {
		t.Helper()
		s, err := openSources.acquire(c, "")
		if err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "ready", func() bool { return s.Status().Ready() })
		return s
	}
	const syncs, read = "coredns_ovnhosts_database_syncs_total contents", "coredns_ovnhosts_database_read_bytes_total"
	first, second := open(local), open(all)
	var status api.Status
	openSources.addStatus(t.Context(), &status)
	if len(status.Databases) != 2 {
		t.Errorf("the status has %d databases, want 2", len(status.Databases))
	}
	var before map[string]float64
	step := func(name string, wantSyncs float64, up bool) {
		t.Helper()
		now := series()
		if now[syncs] != wantSyncs {
			t.Errorf("%s: %v times in sync, want %v", name, now[syncs], wantSyncs)
		}
		if _, has := now["coredns_ovnhosts_database_up"]; has != up {
			t.Errorf("%s: the gauges are there: %v, want %v", name, has, up)
		}
		for of, v := range before {
			if strings.Contains(of, "_total") && now[of] < v {
				t.Errorf("%s: %s fell from %v to %v", name, of, v, now[of])
			}
		}
		before = now
	}
	step("both", 2, true)
	if before[read] == 0 {
		t.Error("no bytes are counted")
	}
	openSources.release(first)
	step("one has ended", 2, true)
	first = open(local)
	step("it is back", 3, true)
	openSources.release(first)
	openSources.release(second)
	step("none", 3, false)
}

// seriesOf scrapes the metrics of a database. The key is the name with the values of the labels sent and kind.
func seriesOf(t *testing.T, database string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, s := range testkit.Collect(t, series.Collector(scrape)) {
		if s.Labels["database"] == database {
			all[strings.TrimSpace(s.Name+" "+s.Labels["kind"]+s.Labels["sent"])] = s.Value
		}
	}
	return all
}
