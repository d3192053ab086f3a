// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"fmt"
	"strings"
)

// Command is the operation of a FlowMod.
type Command uint8

// Commands of a FlowMod (OpenFlow 1.5.1, 7.3.4.3). Strict ones select one flow by table, match and priority; others
// all flows that the match covers.
const (
	Add Command = iota
	Modify
	ModifyStrict
	Delete
	DeleteStrict
)

func (c Command) String() string {
	switch c {
	case Add:
		return "add"
	case Modify:
		return "modify"
	case ModifyStrict:
		return "modify_strict"
	case Delete:
		return "delete"
	case DeleteStrict:
		return "delete_strict"
	}
	return fmt.Sprintf("command %d", uint8(c))
}

// Flags of a flow (OpenFlow 1.5.1, 7.3.4.2, ofp_flow_mod_flags).
const (
	SendFlowRem  uint16 = 1 << 0
	CheckOverlap uint16 = 1 << 1
	ResetCounts  uint16 = 1 << 2
)

// FlowMod changes flows. Actions apply at once, in order; no actions drop the packet.
type FlowMod struct {
	Command     Command
	Table       uint8 // TableAll deletes in every table
	Priority    uint16
	Cookie      uint64
	CookieMask  uint64 // mask of Cookie, for deletes and modifies
	IdleTimeout uint16 // in seconds; 0 is never
	HardTimeout uint16
	Flags       uint16
	Match       Match
	Actions     []Action
}

const instrApplyActions = 4

// AppendFlowMod encodes f as a FLOW_MOD message. On an error it returns b unchanged.
func AppendFlowMod(b []byte, v Version, xid uint32, f *FlowMod) ([]byte, error) {
	start := len(b)
	b = appendHeader(b, v, typeFlowMod, xid)
	b = be.AppendUint64(b, f.Cookie)
	b = be.AppendUint64(b, f.CookieMask)
	b = append(b, f.Table, byte(f.Command))
	b = be.AppendUint16(b, f.IdleTimeout)
	b = be.AppendUint16(b, f.HardTimeout)
	b = be.AppendUint16(b, f.Priority)
	b = be.AppendUint32(b, noBuffer)
	b = be.AppendUint32(b, PortAny)
	b = be.AppendUint32(b, groupAny)
	b = be.AppendUint16(b, f.Flags)
	b = append(b, 0, 0) // importance
	b = f.Match.append(b)

	if len(f.Actions) > 0 {
		instr := len(b)
		b = append(b, 0, instrApplyActions, 0, 0, 0, 0, 0, 0)
		b = AppendActions(b, v, f.Actions...)
		be.PutUint16(b[instr+2:], uint16(len(b)-instr))
	}
	b, err := endMessage(b, start)
	if err != nil {
		return b, fmt.Errorf("%v: %w", f.brief(), err)
	}
	return b, nil
}

// String returns the format of ovs-ofctl(8).
func (f FlowMod) String() string {
	s := f.brief()
	if f.Command == Delete || f.Command == DeleteStrict {
		return s
	}
	if len(f.Actions) == 0 {
		return s + ",actions=drop"
	}
	texts := make([]string, len(f.Actions))
	for i, a := range f.Actions {
		texts[i] = a.String()
	}
	return s + ",actions=" + strings.Join(texts, ",")
}

// brief is String without the actions.
func (f FlowMod) brief() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%v table=%d", f.Command, f.Table)
	if f.Command != Delete {
		fmt.Fprintf(&s, ",priority=%d", f.Priority)
	}
	fmt.Fprintf(&s, ",cookie=%#x", f.Cookie)
	if f.CookieMask != 0 {
		fmt.Fprintf(&s, "/%#x", f.CookieMask)
	}
	if f.IdleTimeout != 0 {
		fmt.Fprintf(&s, ",idle_timeout=%d", f.IdleTimeout)
	}
	if f.HardTimeout != 0 {
		fmt.Fprintf(&s, ",hard_timeout=%d", f.HardTimeout)
	}
	if m := f.Match.String(); m != "" {
		s.WriteString("," + m)
	}
	return s.String()
}
