// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/ovn"
)

func init() { control.Process.AddStatus(openSources.tellStatus) }

// tellStatus is the control.StatusFunc of the databases that are open.
func (r *sourceSet) tellStatus(_ context.Context, to *api.Status) {
	now := time.Now()
	all := r.all()
	for _, endpoints := range slices.Sorted(maps.Keys(all)) {
		s := all[endpoints]
		snapshot := snapshotOf(s, now)
		if snapshot.PresentBad > 0 {
			to.Warnings = append(to.Warnings, api.Problem{
				Code: api.CodeBadValues, About: endpoints, Text: fmt.Sprintf("values of the databases that can't be used and are skipped: %d, such as: %s", snapshot.PresentBad, strings.Join(snapshot.FirstBad, "; ")),
			})
		}
		if failure := s.SaveFailure(); failure != "" {
			to.Warnings = append(to.Warnings, api.Problem{Code: api.CodeUnsaved, About: endpoints, Text: "the snapshot is not saved, so a restart has to read all: " + failure})
		}
		for _, d := range s.Status() {
			out := api.Database{
				Name: d.Database, Endpoint: d.Endpoint, Synced: d.Synced, Since: d.Since.Round(0),
				Model: d.Server.Model, Leader: d.Server.Leader, Snapshot: snapshot,
			}
			if !d.Synced {
				out.Failure = control.FailureOf(d.Err)
				text := "it is being read"
				if d.Err != nil {
					text = d.Err.Error()
				}
				if !d.Saved.IsZero() {
					text += "; answers are from the saved snapshot of " + d.Saved.Format(time.RFC3339)
				}
				to.Problems = append(to.Problems, api.Problem{Code: api.CodeDatabase, About: d.Database, Text: "not in sync: " + text})
			}
			to.Databases = append(to.Databases, out)
		}
	}
}

// snapshotOf sums the snapshot of a source up.
func snapshotOf(s *ovn.Source, now time.Time) api.Snapshot {
	snapshot, bad := s.Snapshot(), s.BadValues()
	stats := snapshot.Stats
	out := api.Snapshot{
		Settled: snapshot.Settled, Networks: stats.Networks, Ports: stats.Ports, DNSRows: stats.Rows, Names: stats.Names,
		BadValues: stats.BadValues, LastBad: stats.LastBad, PresentBad: bad.Count, FirstBad: bad.First, RebuildSeconds: stats.Rebuild.Seconds(),
	}
	if !snapshot.Time.IsZero() {
		age := now.Sub(snapshot.Time).Seconds()
		out.AgeSeconds = &age
	}
	return out
}
