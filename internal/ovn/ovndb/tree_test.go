// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
)

// TestTree: wildcards and empty non-terminals after each of a row's changes.
func TestTree(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dp := r.insertSwitch("a", uuidA, 1)
	port := func(key int, host, addr string) {
		r.sbctl(fmt.Sprintf(`create Port_Binding logical_port=p%d tunnel_key=%d datapath=%s options:hostname=%s mac="02:00:00:00:00:01~%s"`, key, key, dp, host, addr))
	}
	port(1, "web", "10.1.0.1")
	port(2, "one.two", "10.1.0.2")
	row := r.sbctl("create DNS datapaths=" + dp + ` records={db.internal="10.0.0.1",*.apps.example="10.0.0.2",own.apps.example="10.0.0.3",deep.ent.apps.example="10.0.0.4"}`)
	c := r.config(true, false)
	c.Monitor = All
	s := r.acquire(c)
	steps := []struct{ name, command, want string }{
		{"initial", "", `
			internal. = empty
			db.internal. = 10.0.0.1
			x.db.internal. = none
			apps.example. = empty
			example. = empty
			x.example. = none
			x.apps.example. = 10.0.0.2
			x.y.apps.example. = 10.0.0.2
			*.apps.example. = 10.0.0.2
			x.*.apps.example. = none
			own.apps.example. = 10.0.0.3
			x.own.apps.example. = none
			ent.apps.example. = empty
			x.ent.apps.example. = none
			deep.ent.apps.example. = 10.0.0.4
			2.0.0.10.in-addr.arpa. = none
			3.0.0.10.in-addr.arpa. = own.apps.example.
			0.0.10.in-addr.arpa. = empty
			10.in-addr.arpa. = empty
			1.0.10.in-addr.arpa. = none
			0.1.10.in-addr.arpa. = empty
			in-addr.arpa. = empty
			arpa. = empty
			ip6.arpa. = none
			a.10.in-addr.arpa. = none
			web. = 10.1.0.1
			web.corp.test. = 10.1.0.1
			x.web.corp.test. = none
			corp.test. = empty
			test. = empty
			two. = empty
			two.corp.test. = empty
			rp.test. = none`},
		{"a wildcard below one of the domain's ports", "set DNS ROW records:*.corp.test=10.0.0.9", `
			web.corp.test. = 10.1.0.1
			x.web.corp.test. = none
			x.corp.test. = 10.0.0.9
			x.two.corp.test. = none
			corp.test. = empty`},
		{"another value", "set DNS ROW records:*.apps.example=10.0.0.5", `
			x.apps.example. = 10.0.0.5`},
		{"upper case", "remove DNS ROW records *.apps.example -- set DNS ROW records:*.APPS.example=10.0.0.6", `
			x.apps.example. = 10.0.0.6`},
		{"unreadable", "set DNS ROW records:*.APPS.example=x", `
			x.apps.example. = none
			apps.example. = empty`},
		{"what blocked it is gone", "remove DNS ROW records deep.ent.apps.example own.apps.example -- set DNS ROW records:*.APPS.example=10.0.0.7", `
			ent.apps.example. = 10.0.0.7
			x.own.apps.example. = 10.0.0.7`},
		{"below an asterisk", "remove DNS ROW records *.APPS.example -- set DNS ROW records:a.*.apps.example=10.0.0.8", `
			a.*.apps.example. = 10.0.0.8
			*.apps.example. = empty
			x.apps.example. = empty
			8.0.0.10.in-addr.arpa. = a.*.apps.example.`},
		{"of reverse names", "set DNS ROW records:*.0.1.10.in-addr.arpa=some.test", `
			1.0.1.10.in-addr.arpa. = web.
			77.0.1.10.in-addr.arpa. = some.test.
			1.1.10.in-addr.arpa. = none`},
		{"of all", `set DNS ROW records:"*"=10.0.0.10`, `
			www.elsewhere. = 10.0.0.10
			x.internal. = none
			internal. = empty`},
		{"another row blocks it", "create DNS datapaths=DP records={deep.ent.other=10.0.0.11,*.other=10.0.0.12}", `
			x.other. = 10.0.0.12
			x.ent.other. = none
			x.deep.ent.other. = none
			ent.other. = empty
			www.elsewhere. = 10.0.0.10`},
		{"all gone", "destroy DNS ROW", `
			internal. = none
			x.apps.example. = none
			x.other. = 10.0.0.12
			www.elsewhere. = none`},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			if step.command != "" {
				r.sbctl(strings.NewReplacer("ROW", row, "DP", dp).Replace(step.command))
			}
			eventually(t, s, func(s *ovn.Snapshot) string {
				var wrong []string
				for _, line := range strings.Split(strings.TrimSpace(step.want), "\n") {
					name, want, _ := strings.Cut(strings.TrimSpace(line), " = ")
					domain := ""
					if !strings.HasPrefix(name, "1.0.1.10") {
						domain = "corp.test."
					}
					if got := ovn.ShowLookup(s.SwitchScope(networkID(t, uuidA)), name, domain); got != want {
						wrong = append(wrong, fmt.Sprintf("%s: got %q, want %q", name, got, want))
					}
				}
				return strings.Join(wrong, "\n")
			})
			want := ovn.Dump(r.fresh(c))
			if got := ovn.Dump(s.Snapshot()); got != want {
				t.Errorf("incremental:\n%s\nfrom scratch:\n%s", got, want)
			}
		})
	}
}
