// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/plugin/pkg/expression"
	"github.com/coredns/coredns/request"
	"github.com/expr-lang/expr"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/explain"
)

// What the handlers of this package, and views, say of a query that is explained.

// take says which block takes the query.
func (h *Handler) take(ctx context.Context, x *explain.Step) {
	if h.block != nil {
		x.Take(h.block.describe(), metrics.WithView(ctx))
	}
}

// describe names a block by its line and its keys.
func (b *block) describe() string {
	return strings.TrimSuffix(fmt.Sprintf("%s - %s", b, strings.Join(b.block.Keys, " ")), " - ")
}

// explain has forward ask, and says whom.
func (g *loopGuard) explain(ctx context.Context, x *explain.Step, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	var all []string
	for _, p := range g.List() {
		all = append(all, p.Addr())
	}
	x.Notef("it may ask %s", strings.Join(all, " "))
	code, err := g.Forward.ServeDNS(ctx, w, r)
	if err != nil {
		x.Notef("error: %v", err)
		x.Findf(explain.Upstream, "upstream %s does not answer: %v", strings.Join(all, " "), err)
	}
	return code, err
}

// explainViews has the filters of a block say what they have come to, once.
func explainViews(b *block) {
	if b.explains {
		return
	}
	b.explains = true
	for _, c := range b.configs {
		filters := slices.Clone(c.FilterFuncs)
		for i, f := range filters {
			filters[i] = func(ctx context.Context, r *request.Request) bool {
				matches := f(ctx, r)
				if x := explain.Of(ctx); x != nil {
					x.Try(b.tellView(ctx, r, c, matches))
				}
				return matches
			}
		}
		c.FilterFuncs = filters
	}
}

// tellView says what the view of a block has come to.
func (b *block) tellView(ctx context.Context, r *request.Request, c *dnsserver.Config, matches bool) explain.View {
	v := explain.View{Block: b.describe(), Name: c.ViewName, Matches: matches}
	labels := map[string]bool{}
	for _, text := range viewExpressions(b.block) {
		v.Expressions = append(v.Expressions, evaluate(ctx, r, text))
		for _, m := range comparedLabel.FindAllStringSubmatch(text, -1) {
			if label := m[1]; !labels[label] {
				labels[label] = true
				v.Labels = append(v.Labels, explain.Label{Name: label, Value: labelValue(ctx, label)})
			}
		}
	}
	return v
}

// comparedLabel matches a label that an expression reads.
var comparedLabel = regexp.MustCompile("metadata\\(\\s*['\"`]([^'\"`]+)['\"`]\\s*\\)")

func labelValue(ctx context.Context, label string) string {
	if f := metadata.ValueFunc(ctx, label); f != nil {
		return f()
	}
	return ""
}

// viewExpressions returns the expressions of the view of a block.
func viewExpressions(block caddyfile.ServerBlock) (all []string) {
	d := dispenser(block.Tokens["view"])
	for d.Next() {
		d.RemainingArgs() // its name
		for d.NextBlock() {
			if d.Val() == "expr" {
				all = append(all, strings.Join(d.RemainingArgs(), " "))
			}
		}
	}
	return all
}

// evaluate evaluates an expression as the plugin view does.
func evaluate(ctx context.Context, r *request.Request, text string) explain.Expression {
	out := explain.Expression{Text: text}
	program, err := expr.Compile(text, expr.Env(expression.DefaultEnv(context.Background(), nil)), expr.DisableBuiltin("type"))
	if err == nil {
		var value any
		if value, err = expr.Run(program, expression.DefaultEnv(ctx, r)); err == nil {
			out.Value = fmt.Sprint(value)
		}
	}
	if err != nil {
		out.Err = err.Error()
	}
	return out
}
