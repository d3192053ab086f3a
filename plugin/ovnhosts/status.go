// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
)

func init() { control.Process.AddStatus(openSources.addStatus) }

func (r *sourceSet) addStatus(_ context.Context, to *api.Status) {
	now := time.Now()
	for _, s := range r.all() {
		addSource(s, now, to)
	}
}

// addProblem skips duplicates: sources with other settings may read the same database.
func addProblem(all *[]api.Problem, p api.Problem) {
	if !slices.ContainsFunc(*all, func(of api.Problem) bool { return of.Code == p.Code && of.About == p.About && of.Text == p.Text }) {
		*all = append(*all, p)
	}
}

func addSource(s openSource, now time.Time, to *api.Status) {
	snapshot, endpoints := snapshotOf(s.Source, now), s.config.Endpoints()
	if snapshot.PresentBad > 0 {
		addProblem(&to.Warnings, api.Problem{
			Code: api.CodeBadValues, About: endpoints, Text: fmt.Sprintf("values of the databases that can't be used and are skipped: %d, such as: %s", snapshot.PresentBad, strings.Join(snapshot.FirstBad, "; ")),
		})
	}
	if failure := s.SaveFailure(); failure != "" {
		addProblem(&to.Warnings, api.Problem{Code: api.CodeUnsaved, About: endpoints, Text: "the snapshot is not saved, so a restart has to read all: " + failure})
	}
	for _, d := range s.Status() {
		out := api.Database{
			Name: d.Database, Endpoint: d.Endpoint, Synced: d.Synced, Since: d.Since.Round(0),
			Model: d.Server.Model, Leader: d.Server.Leader, Snapshot: snapshot,
		}
		if !d.Synced {
			out.Failure = control.FailureOf(d.Err)
			addProblem(&to.Problems, api.Problem{Code: api.CodeDatabase, About: d.Database, Text: d.Lack()})
		}
		to.Databases = append(to.Databases, out)
	}
}

func snapshotOf(s *ovndb.Source, now time.Time) api.Snapshot {
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
