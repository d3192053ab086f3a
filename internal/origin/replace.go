// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"context"

	"github.com/miekg/dns"
)

// ReplaceAnswer writes the answer of a plugin that may stand for the answer of a plugin behind it, such as the one of
// a policy. The property *why* of ofpunt takes the package of the caller for the plugin that has answered, and not the
// plugin behind.
func ReplaceAnswer(w dns.ResponseWriter, m *dns.Msg) error { return w.WriteMsg(m) }

// Replacer is implemented by response writers that may replace an answer, such as rpz's for an address.
type Replacer interface {
	// Query returns the query that the plugin passes on.
	Query() *dns.Msg
	// Judge decides and counts as WriteMsg does, and reports whether WriteMsg will replace m. The caller then writes m, or a
	// failure.
	Judge(m *dns.Msg) (replaced bool)
}

type replacerKey struct{}

// WithReplacer returns the context for the plugins whose answers r gets.
func WithReplacer(ctx context.Context, r Replacer) context.Context {
	return context.WithValue(ctx, replacerKey{}, r)
}

// JudgeAnswer has the Replacer of the query, if there is one, judge the answer m. A lookup has the context of the query that it is
// for, but is another query.
func JudgeAnswer(ctx context.Context, query, m *dns.Msg) (replaced bool) {
	r, ok := ctx.Value(replacerKey{}).(Replacer)
	return ok && r.Query() == query && r.Judge(m)
}
