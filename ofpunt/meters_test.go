// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"errors"
	"testing"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Errors of the switch about meters (openflow-1.5, OFPET_METER_MOD_FAILED).
var (
	meterNotKnown = &openflow.SwitchError{Version: openflow.V15, Type: 12, Code: 3}
	meterInvalid  = &openflow.SwitchError{Version: openflow.V15, Type: 12, Code: 2}
	noMoreMeters  = &openflow.SwitchError{Version: openflow.V15, Type: 12, Code: 10}
	noSuchTable   = &openflow.SwitchError{Version: openflow.V15, Type: 5, Code: 2}
)

// A guest keeps its meter unless the switch will have none; then it is served
// without one.
func TestMetersRefused(t *testing.T) {
	const most = 1 << 20
	tests := []struct {
		name string
		err  error
		flow bool // the error is about a flow
		// again tells whether it is to be tried again, kept whether the guest
		// keeps its meter.
		again, kept bool
	}{
		{"gone meanwhile", meterNotKnown, false, true, true},
		{"a flow names one that is gone", meterInvalid, true, true, true},
		{"the switch has no more", noMoreMeters, false, true, false},
		{"the switch takes none of ours", meterInvalid, false, true, false},
		{"something else", noSuchTable, true, false, true},
		{"the connection is gone", errors.New("gone"), false, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMeters("br-meters", nil)
			m.take(most, nil)
			guest := guestKey{1, 1}
			if id := m.assign()(guest); id != most {
				t.Fatalf("the first guest has meter %d, want %d", id, most)
			}
			if err := m.blame(tt.err, tt.flow); errors.Is(err, errMeters) != tt.again || !errors.Is(err, tt.err) {
				t.Errorf("blame: %v", err)
			}
			m.take(most, nil)
			want := uint32(0)
			if tt.kept {
				want = most
			}
			if id := m.assign()(guest); id != want {
				t.Errorf("the guest has meter %d, want %d", id, want)
			}
		})
	}
}

// There may be fewer meters than guests.
func TestMetersShort(t *testing.T) {
	m := newMeters("br-meters", nil)
	m.take(4, []openflow.MeterConfig{{ID: 1}, {ID: 3}})
	give := m.assign()
	for i, want := range []uint32{4, 0, 0} { // 3 stands, and the lower half is others'
		if id := give(guestKey{1, uint32(i)}); id != want {
			t.Errorf("guest %d has meter %d, want %d", i, id, want)
		}
	}
}
