// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"fmt"
	"strings"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/plugin/rpz/rules"
)

var done = map[rules.Action]string{
	rules.NXDomain: "says that the name does not exist",
	rules.NoData:   "says that the name has no records",
	rules.Drop:     "has the query dropped without an answer",
	rules.TCPOnly:  "has the guest ask again over TCP",
	rules.Local:    "answers with records of its own",
}

func (q *query) explain(x *explain.Step, f *hit, action string) {
	x.Notef("rule %s of zone %s: %s", f.rule(), f.zone.config.Zone, action)
	said, ok := done[f.action]
	if !ok || action != f.action.String() {
		return // it changes nothing
	}
	zone := &f.zone.config
	where := "a policy zone before it"
	if f.yields(q.state.QName()) {
		where = "it, or a policy zone before it,"
	}
	x.Find(explain.Finding{
		Code: api.CodePolicy, Text: fmt.Sprintf("a filter decides: rule %s of the policy zone %s %s", f.rule(), zone, said),
		Remedy: fmt.Sprintf("if the guest is to have the name, remove the rule from %s, or give %s a rule `%s CNAME rpz-passthru.`", zone.Place(), where, strings.TrimSuffix(q.state.Name(), ".")),
	})
}

// yields reports whether a rule for the exact name of the question precedes this one in its zone.
func (f *hit) yields(qname string) bool {
	exact := f.trigger != rules.ResponseIP && !f.wildcard && strings.EqualFold(f.step, qname)
	return f.zone.override == rules.NoAction && !exact
}

// explainMissing explains why a query fails. A nil step ignores it.
func (z *policyZone) explainMissing(x *explain.Step) {
	if x == nil {
		return
	}
	why := z.missing()
	x.Notef("%s", why)
	x.Find(explain.Finding{Code: api.CodePolicyZone, Text: "queries fail, as rpz has required and its " + why})
}
