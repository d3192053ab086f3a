// SPDX-License-Identifier: Apache-2.0

package vswitch

import (
	"slices"
	"strings"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/model"
)

// Whatever stands in the rows, and whether what they refer to is there or not: a View
// has ports of that bridge only, with numbers and tags that there can be.
func FuzzView(f *testing.F) {
	f.Add("br-int", "br-int", "p", "p", "i", "i", "tap1", "lp1", 7, 42, true)
	f.Add("br-int", "br-ex", "p", "p", "i", "i", "tap1", "lp1", -1, 4096, true)
	f.Add("br-int", "br-int", "p", "q", "i", "j", "", "", 1<<32+7, -1, true)
	f.Add("br-int", "br-int", "p", "p", "i", "i", "tap1", "lp1", 65536, 4096, true)
	f.Add("", "", "", "", "", "", "", "", 65536, 0, false)
	f.Fuzz(func(t *testing.T, bridge, named, hasPort, port, hasInterface, iface, name, id string, ofport, tag int, both bool) {
		row := &ovsInterface{UUID: iface, Name: name, OFPort: &ofport, ExternalIDs: map[string]string{"iface-id": id, name: id}}
		of := &ovsPort{UUID: port, Name: name, Tag: &tag, Interfaces: []string{hasInterface, iface}, OtherConfig: map[string]string{"net_uuid": id}}
		if !both {
			row.OFPort, of.Tag, of.Interfaces, row.ExternalIDs = nil, nil, []string{hasInterface}, nil
		}
		v := tables{
			openVSwitchTable: {"o": &openVSwitch{UUID: "o", ExternalIDs: map[string]string{name: id, "system-id": id}}},
			bridgeTable:      {"b": &ovsBridge{UUID: "b", Name: named, Ports: []string{hasPort, hasPort}}, port: &ovsPort{}},
			portTable:        {port: of, "other": model.Model(row)},
			interfaceTable:   {iface: row, hasPort + "x": nil},
		}.view(bridge, "")
		if v.Chassis != id && !strings.HasPrefix(name, bridgeKeyPrefix) {
			t.Errorf("system-id %q, want %q", v.Chassis, id)
		}
		if len(v.Interfaces) > 0 && (bridge != named || port != hasPort) {
			t.Errorf("%q has a port that is not there: %+v", bridge, v.Interfaces)
		}
		for _, i := range v.Interfaces {
			if i.Name != name || i.UUID != iface || both && i.IfaceID != id || !both && i.IfaceID != "" {
				t.Errorf("%+v of %+v", i, row)
			}
			if i.OFPort >= 1<<16 || i.OFPort != 0 && (!both || int(i.OFPort) != ofport) {
				t.Errorf("number %d of %d", i.OFPort, ofport)
			}
			if i.Tag >= 1<<12 || i.Tag != 0 && (!both || int(i.Tag) != tag) {
				t.Errorf("tag %d of %d", i.Tag, tag)
			}
		}
		if !slices.IsSortedFunc(v.Interfaces, func(a, b Interface) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("not in order: %+v", v.Interfaces)
		}
	})
}
