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

// StatusFunc adds its owner's part to a status. It returns by the end of ctx.
type StatusFunc func(ctx context.Context, to *api.Status)

// AddStatus adds a part of the status.
func (s *Server) AddStatus(f StatusFunc) { s.status = append(s.status, f) }

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
	remedy.Sort(st.Problems)
	slices.SortFunc(st.Bridges, func(a, b api.Bridge) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(st.Databases, func(a, b api.Database) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	remedy.FillStatus(st)
	st.Well = len(st.Problems) == 0
	return st, nil
}
