// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"context"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/plugin/rpz/source"
)

func init() { control.Process.AddStatus(addStatus) }

// addStatus warns of each zone whose last read failed.
func addStatus(_ context.Context, to *api.Status) {
	for _, s := range source.All() {
		problem := s.Status().Problem
		if problem == "" {
			continue
		}
		config := s.Config()
		text := "the zone has no rules, so queries pass by it or, with required, get SERVFAIL: "
		if s.Rules() != nil {
			text = "the rules that were read before stay in force: "
		}
		to.Warnings = append(to.Warnings, api.Problem{Code: api.CodePolicyZone, About: config.String(), Text: text + problem})
	}
}
