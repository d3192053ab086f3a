// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/interest"
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
	release := r.source.Request(Requests{Network: ovn.SwitchRef{Name: "green"}, Routers: true})
	networksAre("blue green")
	release()
	released := r.changes() - before
	r.claim("vm-blue", 1)
	r.are("", "", "")
	r.pass(interest.NarrowAfter - 1)
	networksAre("blue green")
	changedTo(released)
	r.pass(1)
	networksAre("")
	changedTo(released + 1)
}
