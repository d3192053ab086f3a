// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"encoding/binary"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// flowKey is what makes two flows one to the switch.
type flowKey struct {
	table    uint8
	priority uint16
	match    string // openflow.Match.Key
}

func keyOf(f *openflow.FlowMod) flowKey          { return flowKey{f.Table, f.Priority, f.Match.Key()} }
func keyOfUpdate(u *openflow.FlowUpdate) flowKey { return flowKey{u.Table, u.Priority, u.Match.Key()} }

// leaseKey is the key of the lease flow: the switch punts nothing without it.
var leaseKey = flowKey{placement.PrivateTable, placement.PriorityLease, openflow.NewMatch().Key()}

// flow is a flow that should be installed, or one that is. It is immutable.
type flow struct {
	key flowKey
	mod openflow.FlowMod
	// effect is the timeouts and the actions in a form that can be compared; empty if they
	// are not known.
	effect string
}

func newFlow(f openflow.FlowMod) *flow {
	b := binary.BigEndian.AppendUint16(nil, f.IdleTimeout)
	b = binary.BigEndian.AppendUint16(b, f.HardTimeout)
	b = openflow.AppendActions(b, openflow.V15, f.Actions...)
	return &flow{keyOf(&f), f, string(b)}
}

// bareFlow is a flow of which only the owner is known.
func bareFlow(table uint8, priority uint16, cookie uint64, match openflow.Match) *flow {
	f := openflow.FlowMod{Table: table, Priority: priority, Match: match, Cookie: cookie}
	return &flow{key: keyOf(&f), mod: f}
}

// changed is f after another program has modified it.
func (f *flow) changed() *flow {
	c := *f
	c.effect = ""
	return &c
}

// same reports whether f is installed just as want should be.
func (f *flow) same(want *flow) bool {
	return f == want || f.mod.Cookie == want.mod.Cookie && f.effect == want.effect
}

// removal is the change that removes f, and no flow of another cookie in its place.
func (f *flow) removal() openflow.FlowMod {
	m := f.mod
	m.Command, m.CookieMask, m.Actions = openflow.DeleteStrict, exactMask, nil
	return m
}
