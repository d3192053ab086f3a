// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
)

// syncChassis has a Source read that many chassis and says how long it took. The local
// one is among them.
func syncChassis(t testing.TB, n int) time.Duration {
	t.Helper()
	server := newScriptServer(t, topology.SouthboundName, "/usr/share/ovn/ovn-sb.ovsschema")
	defer server.close()
	for i := range n {
		server.insert(topology.TableChassis, fmt.Sprintf("c%d", i), fmt.Sprintf(`{"name":"hv%d"}`, i))
	}
	s := start(Config{Southbound: []string{server.endpoint()}}, mustEndpoints(t, []string{server.endpoint()}), nil, nil)
	defer s.stop()
	s.nameChassis("hv1")
	send := server.awaitMonitor()
	begin := time.Now()
	send()
	eventually(t, s, func(s *ovn.Snapshot) string {
		if !s.HasChassis() {
			return "the local chassis is not known"
		}
		return ""
	})
	return time.Since(begin)
}

// The time of a sync is in proportion to the chassis: the local one is not searched for
// among all of them with each row. With 32 times as many, each may take ten times as long
// on a busy machine; a search would take about 32 times.
func TestSyncOfManyChassis(t *testing.T) {
	const few, many, tries = 1000, 32000, 5
	row := func(n int) time.Duration { return syncChassis(t, n) / time.Duration(n) }
	a := row(few)
	for range tries - 1 {
		a = min(a, row(few))
	}
	// The fastest counts of these too, so that one that is fast enough is the last.
	b := row(many)
	for i := 1; i < tries && b > 10*a; i++ {
		b = min(b, row(many))
	}
	if b > 10*a {
		t.Errorf("a row takes %s with %d chassis and %s with %d", a, few, b, many)
	}
}

// BenchmarkSyncChassis reads a Southbound of 2,000 chassis.
func BenchmarkSyncChassis(b *testing.B) {
	var all time.Duration
	for b.Loop() {
		all += syncChassis(b, 2000)
	}
	b.ReportMetric(float64(all.Microseconds())/float64(b.N), "µs/sync")
}
