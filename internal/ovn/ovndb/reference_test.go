// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
)

func TestParseSwitchRef(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"red", `"red"`},
		{"11111111-1111-4111-8111-AAAAAAAAAAAA", "11111111-1111-4111-8111-aaaaaaaaaaaa"},
		{"neutron-11111111-1111-4111-8111-aaaaaaaaaaaa", `"neutron-11111111-1111-4111-8111-aaaaaaaaaaaa"`},
		{"11111111111141118111aaaaaaaaaaaa", `"11111111111141118111aaaaaaaaaaaa"`},
		{"11111111-1111-4111-8111-aaaaaaaaaaag", `"11111111-1111-4111-8111-aaaaaaaaaaag"`},
		{"00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000: no row has this UUID"},
	} {
		r, err := ovn.ParseSwitchRef(tt.text)
		got := r.String()
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.text, got, tt.want)
		}
	}
}

// Rows of two switches of one name, as Southbound has them up to OVN 25.03 and from 25.09 on,
// and Northbound.
const (
	oldPair = `
		sb insert Datapath_Binding first tunnel_key=1 external_ids=name:web,logical-switch:@first
		sb insert Datapath_Binding second tunnel_key=2 external_ids=name:web,logical-switch:@second`
	northboundPair = `
		nb insert Logical_Switch first name=web
		nb insert Logical_Switch second name=web`
)

// A name of several switches refers to none of them, and the log tells so once; the UUID of one
// refers to that, in either database, whatever has a name like it.
func TestAmbiguousName(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"both are there", oldPair + `
			network web
			sb tells
			has ref:web=none~of~2 told=0~missing~0~there logged=1~ambiguous~0~unique
			sb modify Datapath_Binding first tunnel_key=3
			sb tells
			has ref:web=none~of~2 logged=1~ambiguous~0~unique`},
		{"the second comes, and goes", `
			sb insert Datapath_Binding first tunnel_key=1 external_ids=name:web,logical-switch:@first
			network web
			sb tells
			has ref:web=web networks=web logged=0~ambiguous~0~unique
			sb insert Datapath_Binding second tunnel_key=2 external_ids=name:web,logical-switch:@second
			sb tells
			has ref:web=none~of~2 logged=1~ambiguous~0~unique
			sb delete Datapath_Binding first
			sb tells
			has ref:web=web logged=1~ambiguous~1~unique
			sb delete Datapath_Binding second
			sb tells
			has ref:web=none~of~0 told=1~missing~0~there logged=1~ambiguous~1~unique
			` + oldPair + `
			sb tells
			has ref:web=none~of~2 told=1~missing~0~there logged=2~ambiguous~1~unique`},
		{"one is named anew", oldPair + `
			network web
			sb tells
			has ref:web=none~of~2
			sb modify Datapath_Binding first external_ids=name:other
			sb tells
			has ref:web=web logged=1~ambiguous~1~unique`},
		{"two rows of one switch are one", `
			network web
			sb insert Datapath_Binding first tunnel_key=1 external_ids=name:web,logical-switch:@first
			sb insert Datapath_Binding again tunnel_key=2 external_ids=name:web,logical-switch:@first
			sb tells
			has ref:web=web logged=0~ambiguous~0~unique`},
		{"a router has the name too", `
			network web
			sb insert Datapath_Binding first tunnel_key=1 external_ids=name:web,logical-switch:@first
			sb insert Datapath_Binding router tunnel_key=2 external_ids=name:web,logical-router:@router
			sb tells
			has ref:web=web logged=0~ambiguous~0~unique`},
		{"by UUID", oldPair + `
			network @second
			sb tells
			has ref:@second=web told=0~missing~0~there logged=0~ambiguous~0~unique`},
		{"a switch that is named by the UUID", `
			sb insert Datapath_Binding thief tunnel_key=1 external_ids=name:@first,logical-switch:@thief
			network @first
			sb tells
			has ref:@first=none~of~0 told=1~missing~0~there
			sb insert Datapath_Binding first tunnel_key=2 external_ids=name:web,logical-switch:@first
			sb tells
			has ref:@first=web told=1~missing~1~there`},
		{"Northbound", northboundPair + `
			network web
			nb tells
			has ref:web=none~of~2 logged=1~ambiguous~0~unique
			nb delete Logical_Switch first
			nb tells
			has ref:web=web logged=1~ambiguous~1~unique`},
		{"Northbound, by UUID", northboundPair + `
			network @second
			nb tells
			has ref:@second=web told=0~missing~0~there logged=0~ambiguous~0~unique
			nb delete Logical_Switch second
			nb tells
			has ref:@second=none~of~0 told=1~missing~0~there`},
		{"names that are compared", oldPair + `
			compare web other
			sb tells
			has logged=1~ambiguous~0~unique
			sb delete Datapath_Binding first
			sb tells
			has logged=1~ambiguous~1~unique
			sb delete Datapath_Binding second
			sb tells
			has logged=1~ambiguous~1~unique told=0~missing~0~there`},
		{"a name that is compared later", oldPair + `
			sb tells
			has logged=0~ambiguous~0~unique
			compare web
			has logged=1~ambiguous~0~unique
			compare web
			has logged=1~ambiguous~0~unique`},
	} {
		for _, monitor := range []Monitor{Local, All} {
			t.Run(fmt.Sprintf("%s, monitor %d", tt.name, monitor), func(t *testing.T) { runScript(t, monitor, tt.script) })
		}
	}
}

// A second switch of the name makes it ambiguous as soon as its row is there, before it is
// complete: else the first would answer for as long as the other is being read.
func TestAmbiguousBeforeComplete(t *testing.T) {
	runScript(t, Local, `
		network web
		sb insert Datapath_Binding first tunnel_key=1 external_ids=name:web,logical-switch:@first
		sb tells
		has ref:web=web networks=web
		sb holds
		sb insert Datapath_Binding second tunnel_key=2 external_ids=name:web,logical-switch:@second
		sb tells
		has ref:web=none~of~2 networks=web`)
}

// A guest that is kept has his switch kept too, and its name.
func TestNameWhileKept(t *testing.T) {
	runScript(t, Local, twoNetworks+`
		chassis hv1
		plug r1
		network red
		sb tells
		has ref:red=red kept=0
		sb breaks
		sb tells
		has ref:red=red kept=1
		sb insert Datapath_Binding again tunnel_key=9 external_ids=name:red,logical-switch:@again
		sb tells
		has ref:red=none~of~2 kept=1`)
}

// What ovn-northd of this release writes for a switch is found by the UUID of its row.
func TestNetworkByUUID(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	r.nbctl("ls-add web -- lsp-add web vm -- lsp-set-options vm hostname=vm -- lsp-set-addresses vm 02:00:00:00:00:01~10.0.0.1")
	first := r.nbctl("get Logical_Switch web _uuid")
	r.nbctl("--add-duplicate ls-add web")
	r.nbctl("--wait=sb sync")
	ref, err := ovn.ParseSwitchRef(first)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Config{r.config(true, false), r.config(true, true), r.config(false, true)} {
		s := r.acquire(c)
		defer s.Request(Requests{Network: ref})()
		eventually(t, s, func(s *ovn.Snapshot) string {
			n, count := s.Resolve(ref)
			if n == nil || n.ID != ref.ID || count != 1 {
				return fmt.Sprintf("%s refers to %v of %d", ref, n, count)
			}
			if a, ok := n.Lookup("vm.", ""); !ok || ovn.ShowAnswer(a) != "10.0.0.1" {
				return "vm: " + ovn.ShowAnswer(a)
			}
			return ""
		})
	}
}
