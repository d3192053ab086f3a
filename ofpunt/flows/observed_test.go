// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"testing"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// Only another program's changes of our installed flows count as lost.
func TestLost(t *testing.T) {
	const table = 29
	mod := openflow.FlowMod{Table: table, Priority: 100, Match: openflow.NewMatch(), Cookie: cookieMark | 2}
	ours := newFlow(mod)
	lease := newFlow(openflow.FlowMod{Table: placement.PrivateTable, Priority: placement.PriorityLease, Match: openflow.NewMatch(), Cookie: cookieMark | 2})
	update := func(e openflow.FlowEvent, f *flow, cookie uint64, reason uint16) openflow.FlowUpdate {
		return openflow.FlowUpdate{Event: e, Table: f.key.table, Priority: f.key.priority, Match: openflow.NewMatch(), Cookie: cookie, Reason: reason}
	}
	tests := []struct {
		name       string
		update     openflow.FlowUpdate
		lost       int
		stands, up bool // the flow is unchanged; the lease has not expired
		relevant   bool
	}{
		{"our own change", openflow.FlowUpdate{Event: openflow.FlowOwn}, 0, true, true, false},
		{"removed", update(openflow.FlowRemoved, ours, mod.Cookie, 2), 1, false, true, true},
		{"another cookie of ours", update(openflow.FlowAdded, ours, cookieMark|1, 0), 1, false, true, true},
		{"somebody else's cookie", update(openflow.FlowAdded, ours, 7, 0), 1, false, true, true},
		{"other actions", update(openflow.FlowModified, ours, mod.Cookie, 0), 1, false, true, true},
		{"an earlier process's, from before the monitor", update(openflow.FlowInitial, ours, cookieMark|1, 0), 0, false, true, true},
		{"the lease flow has expired", update(openflow.FlowRemoved, lease, mod.Cookie, 1), 0, true, false, true},
		{"another flow of somebody else", openflow.FlowUpdate{Event: openflow.FlowAdded, Table: table, Priority: 7}, 0, true, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newObserved()
			s.set(ours)
			s.set(lease)
			if got := s.update(&tt.update, 2); got != tt.relevant {
				t.Errorf("about a flow of ours: %v", got)
			}
			if s.lost != tt.lost {
				t.Errorf("%d flows are lost, want %d", s.lost, tt.lost)
			}
			had := s.flows[ours.key]
			if stands := had != nil && had.same(ours); stands != tt.stands {
				t.Errorf("stands %v, want %v", stands, tt.stands)
			}
			if s.expired == tt.up {
				t.Errorf("expired %v", s.expired)
			}
		})
	}
}

func TestSame(t *testing.T) {
	punt := func(id uint16, data byte, meter uint32) openflow.Action {
		return openflow.Controller2{ControllerID: id, UserData: []byte{data}, Meter: meter}
	}
	of := func(change func(*openflow.FlowMod)) *flow {
		f := openflow.FlowMod{Table: 200, Priority: 10, Cookie: 7, HardTimeout: 15, Actions: []openflow.Action{
			punt(1, 1, 3), openflow.Resubmit{Table: 30},
		}}
		change(&f)
		return newFlow(f)
	}
	for _, tt := range []struct {
		name   string
		change func(*openflow.FlowMod)
		want   bool
	}{
		{"the same", func(*openflow.FlowMod) {}, true},
		{"another cookie", func(f *openflow.FlowMod) { f.Cookie++ }, false},
		{"another timeout", func(f *openflow.FlowMod) { f.HardTimeout++ }, false},
		{"another meter", func(f *openflow.FlowMod) { f.Actions[0] = punt(1, 1, 4) }, false},
		{"another controller", func(f *openflow.FlowMod) { f.Actions[0] = punt(2, 1, 3) }, false},
		{"other user data", func(f *openflow.FlowMod) { f.Actions[0] = punt(1, 2, 3) }, false},
		{"another table", func(f *openflow.FlowMod) { f.Actions[1] = openflow.Resubmit{Table: 31} }, false},
		{"an action less", func(f *openflow.FlowMod) { f.Actions = f.Actions[:1] }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := of(func(*openflow.FlowMod) {}).same(of(tt.change)); got != tt.want {
				t.Errorf("same: %v", got)
			}
		})
	}
}

// A removal spares another process's flow in the same place.
func TestRemoval(t *testing.T) {
	for _, installed := range []uint64{cookieOf(1), cookieOf(2), 7} {
		sw := newFakeSwitch(epoch)
		sw.change(nil, openflow.FlowMod{Command: openflow.Add, Table: 29, Priority: 100, Cookie: installed})
		sw.change(nil, bareFlow(29, 100, cookieOf(1), openflow.Match{}).removal())
		if want := installed != cookieOf(1); (len(sw.flows) == 1) != want {
			t.Errorf("cookie %#x: %d flows are left", installed, len(sw.flows))
		}
	}
}
