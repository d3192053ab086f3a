// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"context"
	"fmt"
	"strings"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
)

func (p *Policy) explainRoute(x *explain.Step, q *Question, to route) {
	forwards := q.Asker.forwards(q.State.Name(), q.State.QType())
	switch {
	case to == toNext && forwards:
		x.Notef("not known: the network has named servers for it, which ovnforward asks")
	case to == toNextUnlessDenied && forwards:
		x.Notef("not known: the network has named servers for it, which ovnforward asks, but if they deny the name, the answer is from here: there are names of the guest below it")
	case to == toNext:
		x.Notef("not known, and fallthrough covers the name: the next plugin is asked")
	case to == toNextUnlessDenied:
		x.Notef("not known: the next plugin is asked, but if that denies the name, the answer is from here")
	default:
		why := "fallthrough does not cover the name"
		if p.Fall.Through(q.State.Name()) {
			why = "it is in the guest's own domain " + q.Asker.Domain + ", or there are names of the guest below it, and fallthrough without zones keeps those here"
		}
		x.Notef("not known, and no other plugin is asked: %s", why)
	}
}

func explainReply(x *explain.Step, m *dns.Msg, table string) {
	var data []string
	for _, rr := range m.Answer {
		data = append(data, strings.Join(strings.Fields(strings.TrimPrefix(rr.String(), rr.Header().String())), " "))
	}
	if table == "" {
		table = "no table"
	}
	if len(data) == 0 {
		data = []string{"without records"}
	}
	x.Notef("answers %s %s (from %s)", dns.RcodeToString[m.Rcode], strings.Join(data, " "), table)
}

// explainChain is for more than maxChain aliases.
func explainChain(ctx context.Context, q *Question) {
	explain.Of(ctx).Find(explain.Finding{
		Code: api.CodeAlias, Text: fmt.Sprintf("the CNAME records lead in a circle, or are more than %d, which is the most that are followed: %s is an alias, too", maxChain, q.State.Name()),
	})
}
