// SPDX-License-Identifier: Apache-2.0

package openflow

import "fmt"

// MeterMod changes a meter with one drop band in packets per second (OpenFlow 1.5.1, 7.3.4.5).
type MeterMod struct {
	Command Command // Add, Modify or Delete
	ID      uint32  // 1 to 0xffff0000; for deletes also meterAll
	Rate    uint32
	Burst   uint32 // 0 is the switch's default
}

// meterAll deletes all meters.
const meterAll uint32 = 0xffffffff

const (
	meterPktps = 1 << 1
	meterBurst = 1 << 2
	bandDrop   = 1
)

func appendMeterMod(b []byte, v Version, xid uint32, m *MeterMod) ([]byte, error) {
	var command uint16
	switch m.Command {
	case Add:
	case Modify:
		command = 1
	case Delete:
		command = 2
	default:
		return b, fmt.Errorf("meter %d: a meter knows no %v", m.ID, m.Command)
	}
	flags := uint16(meterPktps)
	if m.Burst > 0 {
		flags |= meterBurst
	}
	start := len(b)
	b = appendHeader(b, v, typeMeterMod, xid)
	b = be.AppendUint16(b, command)
	b = be.AppendUint16(b, flags)
	b = be.AppendUint32(b, m.ID)
	if m.Command != Delete {
		b = append(b, 0, bandDrop, 0, 16)
		b = be.AppendUint32(b, m.Rate)
		b = be.AppendUint32(b, m.Burst)
		b = append(b, 0, 0, 0, 0)
	}
	return closeMessage(b, start), nil
}

// String returns the format of ovs-ofctl(8).
func (m MeterMod) String() string {
	s := fmt.Sprintf("%v meter=%d", m.Command, m.ID)
	if m.Command == Delete {
		return s
	}
	return s + fmt.Sprintf(",pktps,band=type=drop,rate=%d,burst_size=%d", m.Rate, m.Burst)
}
