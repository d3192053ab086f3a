// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"encoding/binary"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// flowKey identifies a flow in the switch.
type flowKey struct {
	table    uint8
	priority uint16
	match    string // openflow.Match.Key
}

func keyOf(f *openflow.FlowMod) flowKey          { return flowKey{f.Table, f.Priority, f.Match.Key()} }
func keyOfUpdate(u *openflow.FlowUpdate) flowKey { return flowKey{u.Table, u.Priority, u.Match.Key()} }

// leaseKey is the lease flow's. Without the lease flow the switch punts nothing.
var leaseKey = flowKey{placement.PrivateTable, placement.PriorityLease, openflow.NewMatch().Key()}

// flow is a wanted or installed flow. It is immutable.
type flow struct {
	key flowKey
	mod openflow.FlowMod
	// effect encodes timeouts and actions for comparison, empty if unknown.
	effect string
}

func newFlow(f openflow.FlowMod) *flow {
	b := binary.BigEndian.AppendUint16(nil, f.IdleTimeout)
	b = binary.BigEndian.AppendUint16(b, f.HardTimeout)
	b = openflow.AppendActions(b, openflow.V15, f.Actions...)
	return &flow{keyOf(&f), f, string(b)}
}

// bareFlow has unknown actions.
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

func (f *flow) same(want *flow) bool {
	return f == want || f.mod.Cookie == want.mod.Cookie && f.effect == want.effect
}

// removal spares a flow of another cookie in the same place.
func (f *flow) removal() openflow.FlowMod { return removalOf(f.mod) }

func removalOf(m openflow.FlowMod) openflow.FlowMod {
	m.Command, m.CookieMask, m.Actions = openflow.DeleteStrict, exactMask, nil
	return m
}
