// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"testing"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// Only what somebody else did to our flows since they stand counts as lost; in any
// case they are put back.
func TestKeeperLost(t *testing.T) {
	const table = 29
	mod := openflow.FlowMod{Table: table, Priority: 100, Match: openflow.NewMatch(), Cookie: cookieMark | 2}
	ours := newFlow(mod)
	punt := newFlow(openflow.FlowMod{Table: placement.PrivateTable, Priority: placement.PriorityPunt, Match: openflow.NewMatch(), Cookie: cookieMark | 2})
	update := func(e openflow.FlowEvent, f flow, cookie uint64, reason uint16) openflow.FlowUpdate {
		return openflow.FlowUpdate{Event: e, Table: f.key.table, Priority: f.key.priority, Match: openflow.NewMatch(), Cookie: cookie, Reason: reason}
	}
	tests := []struct {
		name       string
		update     openflow.FlowUpdate
		lost       int
		stands, up bool // our flow as it was; the lease has not lapsed
	}{
		{"our own change", openflow.FlowUpdate{Event: openflow.FlowOwn}, 0, true, true},
		{"removed", update(openflow.FlowRemoved, ours, mod.Cookie, 2), 1, false, true},
		{"another cookie of ours", update(openflow.FlowAdded, ours, cookieMark|1, 0), 1, false, true},
		{"somebody else's cookie", update(openflow.FlowAdded, ours, 7, 0), 1, false, true},
		{"other actions", update(openflow.FlowModified, ours, mod.Cookie, 0), 1, false, true},
		{"an earlier process's, from before the monitor", update(openflow.FlowInitial, ours, cookieMark|1, 0), 0, false, true},
		{"the punt has expired", update(openflow.FlowRemoved, punt, mod.Cookie, 1), 0, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newKeeper(nil)
			k.generation = 2
			k.have = map[flowKey]flowState{ours.key: ours.state, punt.key: punt.state}
			k.told(tt.update)
			if lost, _ := k.catchUp(); lost != tt.lost {
				t.Errorf("%d flows are lost, want %d", lost, tt.lost)
			}
			had, ok := k.have[ours.key]
			if stands := ok && had.cookie == ours.state.cookie && had.text == ours.state.text; stands != tt.stands {
				t.Errorf("stands %v, want %v", stands, tt.stands)
			}
			if k.lapsed == tt.up {
				t.Errorf("lapsed %v", k.lapsed)
			}
		})
	}
}
