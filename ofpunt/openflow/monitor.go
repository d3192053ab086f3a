// SPDX-License-Identifier: Apache-2.0

package openflow

import "fmt"

// FlowEvent says what happened to a flow.
type FlowEvent uint8

// Events of a flow monitor.
const (
	// FlowInitial: the flow was there when the monitor was asked for.
	FlowInitial FlowEvent = iota
	// FlowAdded: another connection added the flow. If there was one with the same
	// table, priority and match, it was replaced without a FlowRemoved.
	FlowAdded
	FlowRemoved
	FlowModified
	// FlowOwn: this connection changed flows, by the request with the XID. There are no
	// other events of these changes.
	FlowOwn
	// FlowPaused: the switch sends no events for now, since this process reads too slowly. The events of all
	// changes meanwhile come before FlowResumed.
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

// FlowUpdate is one event of a flow monitor. FlowOwn has the XID only,
// FlowPaused and FlowResumed have nothing.
type FlowUpdate struct {
	Event       FlowEvent
	XID         uint32
	Table       uint8
	Reason      uint16 // OFPRR_* of FlowRemoved: 0 idle timeout, 1 hard timeout, 2 delete, ...
	Priority    uint16
	IdleTimeout uint16 // in seconds; 0 is never
	HardTimeout uint16 // in seconds; 0 is never
	Cookie      uint64
	Match       Match
}

// monitorFlags ask for the flows that are there and for those added, removed
// and modified, without instructions. They are the same in both versions.
const monitorFlags = 1<<0 | 1<<1 | 1<<2 | 1<<3

// appendFlowMonitor asks for a flow monitor on one table or TableAll: in 1.5
// OFPMP_FLOW_MONITOR, in 1.3 ONF extension 187.
func appendFlowMonitor(b []byte, v Version, xid, id uint32, table uint8) []byte {
	start := len(b)
	if v < V15 {
		b = appendMultipart(b, v, xid, multipartExperimenter)
		b = be.AppendUint32(b, experimenterONF)
		b = be.AppendUint32(b, onfFlowMonitor)
		b = be.AppendUint32(b, id)
		b = be.AppendUint16(b, monitorFlags)
		b = be.AppendUint16(b, 4) // of the match without padding
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

// monitorBody returns the updates in a multipart reply, or false if it is not
// from a flow monitor.
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

// decodeFlowUpdates calls each for every update in the body. Events that it
// does not know are skipped.
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
		if v < V15 { // ONF's extension has none for initial flows, nor for pauses
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
