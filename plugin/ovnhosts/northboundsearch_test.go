// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"fmt"
	"slices"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Each kind of finding has room of its own.
func TestMostFindings(t *testing.T) {
	all := make([]explain.Finding, 3*maxOtherNetworks)
	for i := range all {
		all[i].Code = api.CodeOtherNetwork
	}
	all = append(all, explain.Finding{Code: api.CodeNorthd})
	if some := most(all); len(some) != maxOtherNetworks+1 || some[maxOtherNetworks].Code != api.CodeNorthd {
		t.Errorf("%+v", some)
	}
}

// Why a row of Northbound does not give a guest of red a name. blue is joined to red, green is read for other
// guests, and far is not read.
func TestNorthboundFindings(t *testing.T) {
	row := ovsdb.UUID{15: 9}
	red, blue := ovn.SwitchRef{Name: "red", ID: origin.Network{1}}, ovn.SwitchRef{Name: "blue", ID: origin.Network{2}}
	green, far := ovn.SwitchRef{Name: "green", ID: origin.Network{3}}, ovn.SwitchRef{Name: "far", ID: origin.Network{4}}
	const id, redID = "00000000-0000-0000-0000-000000000009", "01000000-0000-0000-0000-000000000000"
	northd := func(name string) string {
		return api.CodeNorthd + " Northbound has db.internal. in row " + id + " of table DNS for switch " + name + ", and Southbound does not have it: ovn-northd has not copied the row []"
	}
	for _, tc := range []struct {
		name      string
		switches  []ovn.SwitchRef
		addresses bool
		copied    bool // Southbound is read
		has       bool // Southbound has the row
		want      []string
	}{
		{"no switch", nil, true, true, false, []string{api.CodeNoSwitch + " Northbound has db.internal. in row " + id + " of table DNS, and no logical switch refers to that row [ovn-nbctl list DNS " + id + " ovn-nbctl add Logical_Switch " + redID + " dns_records " + id + "]"}},
		{"the guest's own", []ovn.SwitchRef{red}, true, true, false, []string{northd("red")}},
		{"one that is joined", []ovn.SwitchRef{blue}, true, true, false, []string{northd("blue")}},
		{"copied, and unreadable", []ovn.SwitchRef{red}, true, true, true, nil},
		{"Southbound is not read", []ovn.SwitchRef{red}, true, false, false, nil},
		{"records that are not copied", []ovn.SwitchRef{red}, false, true, false, nil},
		{"another that is read", []ovn.SwitchRef{green}, true, true, false, nil},
		{"another that is not read", []ovn.SwitchRef{far}, true, true, false, []string{api.CodeOtherNetwork + " db.internal. is a name of switch far (04000000-0000-0000-0000-000000000000), and this guest is on switch red, which does not have it []"}},
	} {
		s := northboundSearch{
			qname: "db.internal.", own: red, scope: []origin.Network{red.ID, blue.ID}, copied: tc.copied,
			isKnown: func(id origin.Network) bool { return id != far.ID },
			hasRow:  func(origin.Network, [16]byte) bool { return tc.has },
		}
		var got []string
		for _, f := range s.findings(&ovn.FoundRow{Row: row, Addresses: tc.addresses, Switches: tc.switches}, "") {
			got = append(got, fmt.Sprintf("%s %s %v", f.Code, f.Text, f.Commands))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
