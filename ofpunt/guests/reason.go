// SPDX-License-Identifier: Apache-2.0

package guests

import "strings"

// Code names a reason why an interface is not served. Each has a row in reasons.
type Code string

// The codes of reasons.
const (
	NoGuest       Code = "no-guest"
	NoIfaceID     Code = "no-iface-id"
	NoOFPort      Code = "no-ofport"
	PluggedNow    Code = "plugged-now"
	NotHere       Code = "not-here"
	IfaceIDTwice  Code = "iface-id-twice"
	NoResolver    Code = "no-resolver"
	Unconfirmed   Code = "unconfirmed"
	NotRead       Code = "not-read"
	OtherType     Code = "other-type"
	OfNeutron     Code = "of-neutron"
	DeadVLAN      Code = "dead-vlan"
	NoTag         Code = "no-tag"
	NoAttachedMAC Code = "no-attached-mac"
)

// reasonRow is what is known of a reason. {} in its text stands for the detail of a case. A reason is expected
// if the interface is not meant to be served, or will be in a moment. The remedy is empty if
// iface-id and the binding of the port are the things to check.
type reasonRow struct {
	text     string
	expected bool
	remedy   string
}

// remedyAgent is the remedy if Neutron's agent has not done its work.
const remedyAgent = "see that Neutron's Open vSwitch agent runs on this node, and read its log"

var reasons = map[Code]reasonRow{
	NoGuest:       {"", true, ""},
	NoIfaceID:     {"it has no external_ids:iface-id, so it is of no logical port", true, ""},
	NoOFPort:      {"the switch has given it no OpenFlow port: its device is missing or broken (ovs-vsctl get interface {} error)", false, "give the interface a device that works, or delete its port"},
	PluggedNow:    {"it was plugged a moment ago", true, ""},
	NotHere:       {"{}", false, ""},
	IfaceIDTwice:  {"interface {} has the same external_ids:iface-id, and its guest is the one that is served", false, "one of both interfaces is left over, or has the iface-id of another guest: delete it, or give it the iface-id of its own logical port"},
	NoResolver:    {"it has no resolver address: the databases give it none (address {})", false, ""},
	Unconfirmed:   {"Southbound is not in sync, and the flows of ovn-controller do not confirm that the port is as in the saved snapshot, at this interface", false, ""},
	NotRead:       {"OVN has not bound its logical port here; puntdns looks for the cause 10 s after the interface was plugged, or its iface-id set", true, ""},
	OtherType:     {"its logical port is of a type that is no guest, such as a localport", true, ""},
	OfNeutron:     {"it is of a DHCP agent or a router of Neutron's", true, ""},
	DeadVLAN:      {"it has the tag 4095: Neutron's agent has not bound it, or cuts it off", false, remedyAgent},
	NoTag:         {"it has no tag: Neutron's agent has not bound it", false, remedyAgent},
	NoAttachedMAC: {"its external_ids have no attached-mac that is a MAC address", false, remedyAgent},
}

// Reason is why an interface is not served. The zero value is for an interface that may be served.
type Reason struct {
	Code Code
	// detail is what the case adds to the text.
	detail string
}

// Text says why. It is empty for an interface that no guest could have.
func (r Reason) Text() string { return strings.Replace(reasons[r.Code].text, "{}", r.detail, 1) }

// Expected reports whether the interface is not meant to be served, or will be in a moment.
func (r Reason) Expected() bool { return reasons[r.Code].expected }

// Remedy says what to do about it. It is empty if iface-id and the binding of the port are the things to check.
func (r Reason) Remedy() string { return reasons[r.Code].remedy }
