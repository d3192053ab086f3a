// SPDX-License-Identifier: Apache-2.0

package guests

import "strings"

// Code names a reason why an interface is not served.
type Code string

type reasonRow struct {
	// {} is Reason.detail.
	text string
	// empty: check iface-id and the port binding
	remedy string
	// no guest is missing, or only for a moment
	expected bool
}

var reasons = map[Code]reasonRow{}

func newCode(c Code, r reasonRow) Code {
	reasons[c] = r
	return c
}

const remedyAgent = "see that Neutron's Open vSwitch agent runs on this node, and read its log"

// The reasons.
var (
	NoGuest   = newCode("no-guest", reasonRow{expected: true})
	NoIfaceID = newCode("no-iface-id", reasonRow{
		text:     "it has no external_ids:iface-id, so it is of no logical port",
		expected: true,
	})
	NoOFPort = newCode("no-ofport", reasonRow{
		text:   "the switch has given it no OpenFlow port: its device is missing or broken (ovs-vsctl get interface {} error)",
		remedy: "give the interface a device that works, or delete its port",
	})
	PluggedNow   = newCode("plugged-now", reasonRow{text: "it was plugged a moment ago", expected: true})
	NotHere      = newCode("not-here", reasonRow{text: "{}"})
	IfaceIDTwice = newCode("iface-id-twice", reasonRow{
		text:   "interface {} has the same external_ids:iface-id, and its guest is the one that is served",
		remedy: "one of both interfaces is left over, or has the iface-id of another guest: delete it, or give it the iface-id of its own logical port",
	})
	NoResolver  = newCode("no-resolver", reasonRow{text: "it has no resolver address: the databases give it none (address {})"})
	Unconfirmed = newCode("unconfirmed", reasonRow{
		text: "Southbound is not in sync, and the flows of ovn-controller do not confirm that the port is as in the saved snapshot, at this interface",
	})
	NotRead = newCode("not-read", reasonRow{
		text:     "OVN has not bound its logical port here; puntdns looks for the cause 10 s after the interface was plugged, or its iface-id set",
		expected: true,
	})
	OtherType     = newCode("other-type", reasonRow{text: "its logical port is of a type that is no guest, such as a localport", expected: true})
	OfNeutron     = newCode("of-neutron", reasonRow{text: "it is of a DHCP agent or a router of Neutron's", expected: true})
	DeadVLAN      = newCode("dead-vlan", reasonRow{text: "it has the tag 4095: Neutron's agent has not bound it, or cuts it off", remedy: remedyAgent})
	NoTag         = newCode("no-tag", reasonRow{text: "it has no tag: Neutron's agent has not bound it", remedy: remedyAgent})
	NoAttachedMAC = newCode("no-attached-mac", reasonRow{text: "its external_ids have no attached-mac that is a MAC address", remedy: remedyAgent})
)

// Reason is why an interface is not served. Zero is no reason.
type Reason struct {
	Code   Code
	detail string
}

// Text returns the reason, empty for interfaces that are never a guest's.
func (r Reason) Text() string { return strings.Replace(reasons[r.Code].text, "{}", r.detail, 1) }

// Expected reports whether no guest is missing, or only for a moment.
func (r Reason) Expected() bool { return reasons[r.Code].expected }

// Remedy returns what to do; empty means to check iface-id and the port binding.
func (r Reason) Remedy() string { return reasons[r.Code].remedy }
