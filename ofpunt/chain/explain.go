// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/pkg/expression"
	"github.com/coredns/coredns/request"
	"github.com/expr-lang/expr"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
)

// explain notes which servers *forward* asks. If *forward* passes the name to the next *forward*, that one reports.
func (g *loopGuard) explain(ctx context.Context, x *explain.Step, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	var all []string
	for _, f := range forwardsOf(g.Forward) {
		var own []string
		for _, p := range f.List() {
			own = append(own, p.Addr())
		}
		slices.Sort(own) // the policy may be random
		all = append(all, strings.Join(own, " "))
	}
	x.Notef("it may ask %s", strings.Join(all, ", or as the next forward "))
	if g.hedge != nil {
		x.Notef("this query is asked without hedge: for a query of a guest, a second server is asked after %s", g.hedge.after)
	}
	x.Forwards(r.Question[0].Name)
	code, err := g.Forward.ServeDNS(ctx, w, r)
	asked := x.Asked()
	last := len(asked) - 1
	switch {
	case err == nil && last > 0:
		x.Notef("%s did not answer as it should, so %s was asked", strings.Join(asked[:last], " "), asked[last])
	case err == nil:
	case last >= 0:
		x.Find(unanswered(asked, r, err))
	case !x.Passed():
		x.Find(explain.Finding{Code: api.CodeUpstream, Text: fmt.Sprintf("none of the upstreams %s was asked: %v", strings.Join(all, " "), err)})
	}
	return code, err
}

func unanswered(asked []string, r *dns.Msg, err error) explain.Finding {
	f := explain.Finding{
		Code: api.CodeUpstream, Text: fmt.Sprintf("upstream %s does not answer: %v", asked[0], err),
	}
	if len(asked) > 1 {
		f.Text = fmt.Sprintf("upstreams %s do not answer; the last error: %v", strings.Join(asked, " "), err)
	}
	for _, address := range asked {
		f.Commands = append(f.Commands, explain.DigAt(address, r)...)
	}
	return f
}

func (g *loopGuard) explainLoop(x *explain.Step) {
	x.Notef("not asked: it would ask the guest itself, which is a loop")
	x.Find(explain.Finding{
		Code: api.CodeLoop, Text: "a loop: forward asks this guest, which is a DNS server, what the guest has asked here; so the query is not forwarded",
	})
}

// explainViews makes the filters of a block report their results.
func explainViews(b *Block) {
	if b.explains {
		return
	}
	b.explains = true
	for _, c := range b.Configs {
		filters := slices.Clone(c.FilterFuncs)
		for i, f := range filters {
			filters[i] = func(ctx context.Context, r *request.Request) bool {
				matches := f(ctx, r)
				if x := explain.Of(ctx); x != nil {
					x.Try(b.viewOf(ctx, r, c, matches))
				}
				return matches
			}
		}
		c.FilterFuncs = filters
	}
}

func (b *Block) viewOf(ctx context.Context, r *request.Request, c *dnsserver.Config, matches bool) explain.View {
	v := explain.View{Block: b.describe(), Name: c.ViewName, Matches: matches}
	labels := map[string]bool{}
	for _, text := range b.viewExpressions() {
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

// comparedLabel matches a label in an expression.
var comparedLabel = regexp.MustCompile("metadata\\(\\s*['\"`]([^'\"`]+)['\"`]\\s*\\)")

func labelValue(ctx context.Context, label string) string {
	if f := metadata.ValueFunc(ctx, label); f != nil {
		return f()
	}
	return ""
}

func (b *Block) viewExpressions() (all []string) {
	d := b.dispenser("view")
	for d.Next() {
		d.RemainingArgs() // name
		for d.NextBlock() {
			if d.Val() == "expr" {
				all = append(all, strings.Join(d.RemainingArgs(), " "))
			}
		}
	}
	return all
}

// evaluate evaluates an expression as *view* does.
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
