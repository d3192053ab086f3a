// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"context"
	"net/url"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/coredns/caddy"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/control/remedy"
)

// StatusFunc adds to a status what its owner knows: a bridge, a database, a problem, a warning. It returns by
// the end of ctx.
type StatusFunc func(ctx context.Context, to *api.Status)

// AddStatus adds a part of the status.
func (s *Server) AddStatus(f StatusFunc) { s.status = append(s.status, f) }

// rank orders problems: those that others may come of are first.
func rank(p *api.Problem) int {
	switch p.Code {
	case api.CodeStalled, api.CodeSwitch, api.CodeLocalDatabase, api.CodeNoBridge, api.CodeOtherProcess, api.CodeLease:
		return 0
	case api.CodeDatabase:
		return 1
	case api.CodeNotServed, api.CodeBinding:
		return 2
	}
	return 3
}

// makeStatus answers PathStatus.
func (s *Server) makeStatus(ctx context.Context, _ url.Values) (any, error) {
	st := &api.Status{
		Problems: []api.Problem{}, Warnings: []api.Problem{}, Bridges: []api.Bridge{}, Databases: []api.Database{},
		Process: api.Process{
			Version: caddy.AppVersion, Go: runtime.Version(), PID: os.Getpid(), UID: os.Geteuid(),
			Started: s.started.Round(0), UptimeSeconds: time.Since(s.started).Seconds(),
		},
	}
	for _, f := range s.status {
		f(ctx, st)
	}
	slices.SortStableFunc(st.Problems, func(a, b api.Problem) int { return cmp.Compare(rank(&a), rank(&b)) })
	slices.SortFunc(st.Bridges, func(a, b api.Bridge) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(st.Databases, func(a, b api.Database) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	remedy.FillStatus(st)
	st.Well = len(st.Problems) == 0
	return st, nil
}
