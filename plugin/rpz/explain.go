// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"fmt"

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
	x.Find(explain.Finding{
		Code: api.CodePolicy, Text: fmt.Sprintf("a filter decides: rule %s of the policy zone %s %s", f.rule(), zone, said),
		Remedy: fmt.Sprintf("if the guest is to have the name, remove the rule from %s, or give a policy zone before it a rule `CNAME rpz-passthru.` for the name", zone.Place()),
	})
}
