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

// Replacer is a dns.ResponseWriter that may write another answer than it gets.
type Replacer interface {
	// Replaces reports whether WriteMsg(m) would write another answer.
	Replaces(m *dns.Msg) bool
}

type replacerKey struct{}

// WithReplacer returns the context for the plugins whose answers r gets.
func WithReplacer(ctx context.Context, r Replacer) context.Context {
	return context.WithValue(ctx, replacerKey{}, r)
}

// Replaces reports whether a plugin above would replace the answer m. A plugin must write the same m then, or no answer.
func Replaces(ctx context.Context, m *dns.Msg) bool {
	r, ok := ctx.Value(replacerKey{}).(Replacer)
	return ok && r.Replaces(m)
}
