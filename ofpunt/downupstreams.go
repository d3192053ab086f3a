// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coredns/coredns/plugin/forward"

	"github.com/puntdns/puntdns/internal/control/api"
)

// failedChecks is how many health checks of a server have failed in a row when the operator is told.
// It is the default of max_fails in forward, which tells nobody what it is set to. After a query
// without an answer forward checks the server every half second, until that answers.
const failedChecks = 2

// upstreamWarnings warns of the servers that the forwards of the blocks ask and that do not answer.
func (s *server) upstreamWarnings() (all []api.Problem) {
	for _, b := range s.upstreams {
		for _, f := range b.forwards {
			down, asked := downUpstreams(f)
			if len(down) == 0 {
				continue
			}
			text := fmt.Sprintf("forward asks %d servers, and of these do not answer: %s", asked, strings.Join(down, " "))
			if len(down) == asked {
				text = "no server that forward asks answers: " + strings.Join(down, " ")
			}
			all = append(all, api.Problem{Code: api.CodeUpstreams, About: b.block.String(), Text: text})
		}
	}
	return all
}

// downUpstreams returns the servers of a forward that do not answer, sorted, and how many it asks.
func downUpstreams(f *forward.Forward) (down []string, asked int) {
	for _, p := range f.List() {
		if p.Down(failedChecks) {
			down = append(down, p.Addr())
		}
	}
	slices.Sort(down)
	return down, f.Len()
}
