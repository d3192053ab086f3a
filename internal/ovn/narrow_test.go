// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"testing"

	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/testkit"
)

// A network whose last guest has gone is asked for until conditions change for another one, or an hour
// has passed.
func TestNetworkWithoutGuests(t *testing.T) {
	t.Parallel()
	r := newClaimRig(t)
	networksAre := func(want string) {
		t.Helper()
		testkit.Eventually(r.t, "networks "+want, func() bool { return networks(r.source.Snapshot()) == want })
	}
	r.claim("vm-red", 2)
	networksAre("red")
	before := r.changes()
	changedTo := func(want uint64) {
		t.Helper()
		if got := r.changes() - before; got != want {
			t.Errorf("%d changes of conditions, want %d", got, want)
		}
	}

	r.claim("vm-red", 1)
	r.are("", "", "")
	networksAre("red")
	r.claim("vm-red", 2)
	r.are("vm-red", "", "")
	r.claim("vm-red", 1)
	r.are("", "", "")
	changedTo(0)

	r.claim("vm-blue", 2)
	r.are("vm-blue", "", "")
	networksAre("blue")
	changedTo(1)

	// So is what was read for a request, and what is joined to it.
	release := r.source.Request(Requests{Network: SwitchRef{Name: "green"}, Routers: true})
	networksAre("blue green")
	release()
	released := r.changes() - before
	r.claim("vm-blue", 1)
	r.are("", "", "")
	r.pass(narrowAfter - 1)
	networksAre("blue green")
	changedTo(released)
	r.pass(1)
	networksAre("")
	changedTo(released + 1)
}

func TestIncludes(t *testing.T) {
	set := func(chassis string, networks ...int) conditions {
		c := conditions{tablePort: {textIs("chassis", chassis)}}
		for _, n := range networks {
			c.ask(tableDatapath, rowWithID(ovsdb.UUID{byte(n)}))
		}
		return c.sort()
	}
	routers := set("hv1", 1)
	routers.ask(tablePort, textIs("type", kindLocalnet))
	routers.sort()
	for _, tt := range []struct {
		name        string
		asked, next conditions
		want        bool
	}{
		{"the same", set("hv1", 1, 2), set("hv1", 1, 2), true},
		{"another network", set("hv1", 1, 2), set("hv1", 3), false},
		{"a network more", set("hv1", 1, 2), set("hv1", 1, 2, 3), false},
		{"a network less", set("hv1", 1, 2), set("hv1", 2), true},
		{"the last network", set("hv1", 1), set("hv1"), true},
		{"most of the networks", set("hv1", 1, 2, 3, 4, 5, 6, 7, 8), set("hv1", 1), true},
		{"another chassis", set("hv1", 1), set("hv2", 1), false},
		{"routers more", set("hv1", 1), routers, false},
		{"routers less", routers, set("hv1", 1), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.asked.includes(tt.next); got != tt.want {
				t.Error(got)
			}
		})
	}
}
