// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

func TestLocalGuests(t *testing.T) {
	const mac = "02:00:00:00:00:01"
	tests := []struct {
		name           string
		port           vswitch.Interface
		neutron, table bool
	}{
		{"bound", vswitch.Interface{OFPort: 1, IfaceID: "lp", AttachedMAC: mac, Tag: 5}, true, true},
		{"not bound", vswitch.Interface{OFPort: 1, IfaceID: "lp", AttachedMAC: mac}, false, true},
		{"cut off", vswitch.Interface{OFPort: 1, IfaceID: "lp", AttachedMAC: mac, Tag: 4095}, false, false},
		{"no number yet", vswitch.Interface{IfaceID: "lp", AttachedMAC: mac, Tag: 5}, false, false},
		{"no logical port", vswitch.Interface{OFPort: 1, AttachedMAC: mac, Tag: 5}, false, false},
		{"no MAC", vswitch.Interface{OFPort: 1, IfaceID: "lp", Tag: 5}, false, true},
		{"MAC of another length", vswitch.Interface{OFPort: 1, IfaceID: "lp", AttachedMAC: "02:00:00:00:00:01:02:03", Tag: 5}, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			view := newLocalView(vswitch.View{Interfaces: []vswitch.Interface{tt.port}}, nil)
			for kind, want := range map[placement.Kind]bool{placement.Neutron: tt.neutron, placement.Table: tt.table} {
				got := slices.Collect(localGuests(kind, view, nil, func(guestKey) uint32 { return 0 }))
				if (len(got) == 1) != want {
					t.Errorf("%s: guests %v, want one: %v", kind, got, want)
				}
			}
		})
	}
}

// The number of a port that the switch has deleted says nothing until the local
// database has caught up: another tenant's port may have it by then.
func TestNumberOfADeletedPort(t *testing.T) {
	old := vswitch.Interface{UUID: "1", Name: "tap-of-some-long-name", OFPort: 3, IfaceID: "red"}
	b := &bridge{gone: map[uint32]tombstone{}}
	show := func(p vswitch.Interface) {
		v := newLocalView(vswitch.View{Interfaces: []vswitch.Interface{p}}, b.view.Load())
		v.settled.Store(true)
		b.view.Store(v)
	}
	who := func() string {
		if i := b.localPort(3); i != nil {
			return i.IfaceID
		}
		return ""
	}
	check := func(step, want string) {
		t.Helper()
		if d := cmp.Diff(want, who()); d != "" {
			t.Errorf("%s: %s", step, d)
		}
	}
	check("without a view", "")
	show(old)
	check("known", "red")
	b.portStatus(openflow.PortStatus{Port: openflow.Port{Number: 3, Name: "tap-of-some-lon"}})
	check("a port came", "red")
	b.portStatus(openflow.PortStatus{Gone: true, Port: openflow.Port{Number: 3, Name: "tap-of-other"}})
	check("one of another name went, which the database has replaced already", "red")
	b.portStatus(openflow.PortStatus{Gone: true, Port: openflow.Port{Number: 3, Name: "tap-of-some-lon"}})
	check("it went", "")
	reused := old
	reused.UUID, reused.IfaceID = "2", "blue"
	show(reused)
	check("the database has caught up", "blue")
}
