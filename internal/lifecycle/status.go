// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
)

// addStatus reports a refused reload as a warning: the old Corefile still serves.
func (r *reloader) addStatus(_ context.Context, to *api.Status) {
	if r.current.Load() == nil {
		return
	}
	r.reviewRefusal()
	taken := time.Unix(r.since.Load(), 0)
	to.Corefile = api.Corefile{Path: r.conf.String(), Taken: &taken, Refused: r.refused.Load()}
	if f := to.Corefile.Refused; f != nil {
		to.Warnings = append(to.Warnings, api.Problem{
			Code: api.CodeReload, About: to.Corefile.Path,
			Text: fmt.Sprintf("the reload at %s (%s) was refused, and the Corefile as taken at %s stays in force: %s", f.Time.Format(time.DateTime), f.By, taken.Format(time.DateTime), f.Reason),
		})
	}
}
