// SPDX-License-Identifier: Apache-2.0

package openflow

import "fmt"

// FlowEvent is the kind of a FlowUpdate.
type FlowEvent uint8

// Events of a flow monitor.
const (
	// FlowInitial: the flow existed at the request.
	FlowInitial FlowEvent = iota
	// FlowAdded: another connection added the flow, or replaced an equal one without FlowRemoved.
	FlowAdded
	FlowRemoved
	FlowModified
	// FlowOwn: this connection changed flows by request XID. No other events of these changes follow.
	FlowOwn
	// FlowPaused: this process reads too slowly. The switch sends all events later, before FlowResumed.
	FlowPaused
	FlowResumed
)

func (e FlowEvent) String() string {
	switch e {
	case FlowInitial:
		return "initial"
	case FlowAdded:
		return "added"
	case FlowRemoved:
		return "removed"
	case FlowModified:
		return "modified"
	case FlowOwn:
		return "own"
	case FlowPaused:
		return "paused"
	case FlowResumed:
		return "resumed"
	}
	return fmt.Sprintf("event %d", uint8(e))
}

// FlowUpdate is an event of a flow monitor. FlowOwn has only the XID, FlowPaused and FlowResumed nothing.
type FlowUpdate struct {
	Event       FlowEvent
	XID         uint32
	Table       uint8
	Reason      uint16 // of FlowRemoved, OFPRR_*: 0 idle timeout, 1 hard timeout, 2 delete, ...
	Priority    uint16
	IdleTimeout uint16 // in seconds; 0 is never
	HardTimeout uint16
	Cookie      uint64
	Match       Match
}

// initial, added, removed and modified flows, without instructions
const monitorFlags = 1<<0 | 1<<1 | 1<<2 | 1<<3

// appendFlowMonitor uses OFPMP_FLOW_MONITOR in 1.5, ONF extension 187 in 1.3.
func appendFlowMonitor(b []byte, v Version, xid, id uint32, table uint8) []byte {
	start := len(b)
	if v < V15 {
		b = appendMultipart(b, v, xid, multipartExperimenter)
		b = be.AppendUint32(b, experimenterONF)
		b = be.AppendUint32(b, onfFlowMonitor)
		b = be.AppendUint32(b, id)
		b = be.AppendUint16(b, monitorFlags)
		b = be.AppendUint16(b, 4) // length of the unpadded match
		b = be.AppendUint32(b, PortAny)
		b = append(b, table, 0, 0, 0)
	} else {
		b = appendMultipart(b, v, xid, multipartFlowMonitor)
		b = be.AppendUint32(b, id)
		b = be.AppendUint32(b, PortAny)
		b = be.AppendUint32(b, groupAny)
		b = be.AppendUint16(b, monitorFlags)
		b = append(b, table, 0) // OFPFMC_ADD
	}
	b = Match{}.append(b)
	return closeMessage(b, start)
}

// monitorBody returns the updates in a flow monitor's reply.
func monitorBody(v Version, typ uint16, body []byte) ([]byte, bool) {
	if v >= V15 {
		return body, typ == multipartFlowMonitor
	}
	if typ == multipartExperimenter && len(body) >= 8 &&
		be.Uint32(body) == experimenterONF && be.Uint32(body[4:]) == onfFlowMonitor {
		return body[8:], true
	}
	return nil, false
}

// decodeFlowUpdates skips unknown events.
func decodeFlowUpdates(b []byte, v Version, each func(FlowUpdate)) error {
	for len(b) > 0 {
		if len(b) < 4 {
			return malformed("flow update of %d bytes", len(b))
		}
		n, event := int(be.Uint16(b)), be.Uint16(b[2:])
		if n < 8 || n > len(b) {
			return malformed("flow update %d with length %d in %d bytes", event, n, len(b))
		}
		entry := b[:n]
		b = b[n:]
		if v < V15 { // ONF's extension lacks initial and pause events
			if event > 3 {
				continue
			}
			event++
		}
		u := FlowUpdate{Event: FlowEvent(event)}
		switch {
		case event <= uint16(FlowModified):
			if err := u.decode(entry, v); err != nil {
				return err
			}
		case event == uint16(FlowOwn):
			u.XID = be.Uint32(entry[4:])
		case event > uint16(FlowResumed):
			continue
		}
		each(u)
	}
	return nil
}

func (u *FlowUpdate) decode(b []byte, v Version) (err error) {
	if len(b) < 24 {
		return malformed("flow update of %d bytes", len(b))
	}
	u.Cookie = be.Uint64(b[16:])
	if v < V15 {
		u.Reason = be.Uint16(b[4:])
		u.Priority = be.Uint16(b[6:])
		u.IdleTimeout = be.Uint16(b[8:])
		u.HardTimeout = be.Uint16(b[10:])
		u.Table = b[14]
	} else {
		u.Table = b[4]
		u.Reason = uint16(b[5])
		u.IdleTimeout = be.Uint16(b[6:])
		u.HardTimeout = be.Uint16(b[8:])
		u.Priority = be.Uint16(b[10:])
	}
	u.Match, _, err = decodeMatch(b[24:])
	return err
}
