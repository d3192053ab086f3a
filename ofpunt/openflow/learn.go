// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"fmt"
	mathbits "math/bits"
	"strings"
)

// nxastLearn2 is the subtype of Learn (lib/ofp-actions.c of Open vSwitch, from 2.8 on).
const nxastLearn2 = 45

// Kinds of the parts of a Learn: where a value comes from, and what it is for (struct nx_action_learn).
const (
	learnConstant = 1 << 13 // else it is a field of the packet
	learnLoad     = 1 << 11 // else it is for the match
)

// Learn has the switch add a flow for the packet (NXAST_LEARN2 in ovs-actions(7)).
type Learn struct {
	Table       uint8
	Priority    uint16
	IdleTimeout uint16 // in seconds; 0 is never
	Cookie      uint64
	// Limit bounds the flows of the table that have the cookie. The switch learns no further one.
	Limit uint32
	// Match are fields of the flow's match, and Same are fields in which the flow matches the values of the packet. A field comes
	// after the fields that it needs. A mask is of successive bits.
	Match, Same []Field
	// Set is the only action of the flow.
	Set Field
}

func (a Learn) append(b []byte, _ Version) []byte {
	start := len(b)
	b = appendNicira(b, 0, nxastLearn2)
	b = be.AppendUint16(b, a.IdleTimeout)
	b = append(b, 0, 0) // no hard timeout
	b = be.AppendUint16(b, a.Priority)
	b = be.AppendUint64(b, a.Cookie)
	b = append(b, 0, 0, a.Table, 0, 0, 0, 0, 0) // no flags, no timeouts by FIN
	b = be.AppendUint32(b, a.Limit)
	b = append(b, 0, 0, 0, 0) // no result
	for _, f := range a.Match {
		b = f.appendLearned(b, 0)
	}
	for _, f := range a.Same {
		b = be.AppendUint16(b, 8*uint16(f.size))
		for range 2 { // from and to the same field
			b = be.AppendUint32(b, f.header())
			b = append(b, 0, 0)
		}
	}
	return endAction(a.Set.appendLearned(b, learnLoad), start)
}

// appendLearned appends the part of a Learn that has the value of a field.
func (f Field) appendLearned(b []byte, what uint16) []byte {
	first, n, value := f.successive()
	b = be.AppendUint16(b, learnConstant|what|n)
	b = append(b, make([]byte, len(value)%2)...)
	b = append(b, value...)
	b = be.AppendUint32(b, f.header())
	return be.AppendUint16(b, first)
}

// successive returns the first bit that a mask of up to 8 bytes has, how many bits it has, and their value in as few bytes as it
// needs.
func (f Field) successive() (first, n uint16, value []byte) {
	value, mask := f.payload()
	if mask == nil {
		return 0, 8 * uint16(f.size), value
	}
	first, n = uint16(mathbits.TrailingZeros64(wide(mask))), uint16(mathbits.OnesCount64(wide(mask)))
	return first, n, be.AppendUint64(nil, wide(value)>>first)[8-(n+7)/8:]
}

// wide returns a number of up to 8 bytes.
func wide(b []byte) (n uint64) {
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}

func (a Learn) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "learn(table=%d,idle_timeout=%d,priority=%d,cookie=%#x,limit=%d", a.Table, a.IdleTimeout, a.Priority, a.Cookie, a.Limit)
	for _, f := range a.Match {
		s.WriteString("," + f.String())
	}
	for _, f := range a.Same {
		s.WriteString("," + f.Name() + "[]")
	}
	return s.String() + "," + SetField{a.Set}.String() + ")"
}
