// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"cmp"
	"context"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/plugin/rpz/source"
)

func init() { control.Process.AddStatus(addStatus) }

// addStatus adds a problem for each zone without rules that a handler requires, and a warning for each other
// zone whose last read failed.
func addStatus(_ context.Context, to *api.Status) {
	required := map[*source.Source]bool{}
	for _, z := range missing() {
		required[z.source] = true
	}
	for _, s := range source.All() {
		config, why := s.Config(), s.Status().Problem
		p := api.Problem{Code: api.CodePolicyZone, About: config.String()}
		switch {
		case required[s]:
			p.Text = "the zone has no rules, so queries of blocks with required get SERVFAIL: " + cmp.Or(why, "it is not read yet")
			to.Problems = append(to.Problems, p)
			continue
		case why == "":
			continue
		case s.Rules() != nil:
			p.Text = "the rules that were read before stay in force: " + why
		default:
			p.Text = "the zone has no rules, so queries pass by it: " + why
		}
		to.Warnings = append(to.Warnings, p)
	}
}
