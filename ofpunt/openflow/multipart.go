// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bytes"
	"time"
)

// Multipart types (OpenFlow 1.5.1, 7.3.5).
const (
	multipartDesc          = 0
	multipartFlow          = 1
	multipartMeterStats    = 9
	multipartMeterConfig   = 10
	multipartMeterFeatures = 11
	multipartPortDesc      = 13
	multipartFlowMonitor   = 16 // 1.4 and later
	multipartExperimenter  = 0xffff
	multipartMore          = 1 << 0
	multipartHeaderLen     = 16
)

func appendMultipart(b []byte, v Version, xid uint32, typ uint16) []byte {
	b = appendHeader(b, v, typeMultipart, xid)
	b = be.AppendUint16(b, typ)
	return append(b, 0, 0, 0, 0, 0, 0)
}

// multipartBody returns the body of a multipart reply and whether another part follows.
func multipartBody(msg []byte) (typ uint16, body []byte, more bool, err error) {
	if len(msg) < multipartHeaderLen || msg[1] != typeMultipartReply {
		return 0, nil, false, malformed("multipart reply of %d bytes", len(msg))
	}
	return be.Uint16(msg[8:]), msg[multipartHeaderLen:], be.Uint16(msg[10:])&multipartMore != 0, nil
}

// FlowStatsRequest selects flows, by default all of table 0; TableAll is for every table.
type FlowStatsRequest struct {
	Table      uint8
	Cookie     uint64
	CookieMask uint64 // mask of Cookie
	Match      Match  // covers the flows
}

// FlowStats is a flow of the switch.
type FlowStats struct {
	Table       uint8
	Priority    uint16
	Cookie      uint64
	IdleTimeout uint16 // in seconds; 0 is never
	HardTimeout uint16
	Flags       uint16
	Duration    time.Duration // since added
	// Idle is the time since the last match or the flow's begin, in whole seconds, -1 in OpenFlow 1.3.
	Idle         time.Duration
	Packets      uint64
	Bytes        uint64
	Match        Match
	Instructions []byte // as on the wire
}

func appendFlowStatsRequest(b []byte, v Version, xid uint32, r *FlowStatsRequest) ([]byte, error) {
	start := len(b)
	b = appendMultipart(b, v, xid, multipartFlow)
	b = append(b, r.Table, 0, 0, 0)
	b = be.AppendUint32(b, PortAny)
	b = be.AppendUint32(b, groupAny)
	b = append(b, 0, 0, 0, 0)
	b = be.AppendUint64(b, r.Cookie)
	b = be.AppendUint64(b, r.CookieMask)
	b = r.Match.append(b)
	return endMessage(b, start)
}

func decodeFlowStats(b []byte, v Version) ([]FlowStats, error) {
	var all []FlowStats
	for len(b) > 0 {
		if len(b) < 2 {
			return nil, malformed("flow statistics: %d bytes left", len(b))
		}
		n := int(be.Uint16(b))
		if n > len(b) {
			return nil, malformed("flow statistics: entry of %d bytes where %d are left", n, len(b))
		}
		var s FlowStats
		var err error
		if v < V15 {
			err = s.decode13(b[:n])
		} else {
			err = s.decode15(b[:n])
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s)
		b = b[n:]
	}
	return all, nil
}

// OpenFlow 1.3.5, A.3.5.2
func (s *FlowStats) decode13(b []byte) error {
	if len(b) < 48 {
		return malformed("flow statistics: entry of %d bytes", len(b))
	}
	m, n, err := decodeMatch(b[48:])
	if err != nil {
		return err
	}
	*s = FlowStats{
		Table:        b[2],
		Duration:     duration(be.Uint32(b[4:]), be.Uint32(b[8:])),
		Idle:         -1,
		Priority:     be.Uint16(b[12:]),
		IdleTimeout:  be.Uint16(b[14:]),
		HardTimeout:  be.Uint16(b[16:]),
		Flags:        be.Uint16(b[18:]),
		Cookie:       be.Uint64(b[24:]),
		Packets:      be.Uint64(b[32:]),
		Bytes:        be.Uint64(b[40:]),
		Match:        m,
		Instructions: bytes.Clone(b[48+n:]),
	}
	return nil
}

// OpenFlow 1.5.1, 7.3.5.2
func (s *FlowStats) decode15(b []byte) error {
	if len(b) < 24 {
		return malformed("flow description: entry of %d bytes", len(b))
	}
	m, n, err := decodeMatch(b[24:])
	if err != nil {
		return err
	}
	*s = FlowStats{
		Table:       b[4],
		Priority:    be.Uint16(b[6:]),
		IdleTimeout: be.Uint16(b[8:]),
		HardTimeout: be.Uint16(b[10:]),
		Flags:       be.Uint16(b[12:]),
		Cookie:      be.Uint64(b[16:]),
		Match:       m,
		Idle:        -1,
	}
	b = b[24+n:]
	n, err = s.decodeOXS(b)
	if err != nil {
		return err
	}
	s.Instructions = bytes.Clone(b[n:])
	return nil
}

// Statistics fields (OpenFlow 1.5.1, 7.2.4).
const (
	classOXSBasic = 0x8002
	oxsDuration   = 0
	oxsIdleTime   = 1
	oxsPackets    = 4
	oxsBytes      = 5
)

// decodeOXS returns the padded length.
func (s *FlowStats) decodeOXS(b []byte) (int, error) {
	if len(b) < 4 {
		return 0, malformed("flow description: statistics of %d bytes", len(b))
	}
	length := int(be.Uint16(b[2:]))
	if length < 4 || round8(length) > len(b) {
		return 0, malformed("flow description: statistics with length %d in %d bytes", length, len(b))
	}
	for f := b[4:length]; len(f) > 0; {
		if len(f) < 4 {
			return 0, malformed("OXS header of %d bytes", len(f))
		}
		n := 4 + int(f[3])
		if n > len(f) {
			return 0, malformed("OXS field of %d bytes where %d are left", n, len(f))
		}
		if be.Uint16(f) == classOXSBasic && n == 12 {
			switch v := f[4:12]; f[2] >> 1 {
			case oxsDuration:
				s.Duration = duration(be.Uint32(v), be.Uint32(v[4:]))
			case oxsIdleTime:
				s.Idle = duration(be.Uint32(v), be.Uint32(v[4:]))
			case oxsPackets:
				s.Packets = be.Uint64(v)
			case oxsBytes:
				s.Bytes = be.Uint64(v)
			}
		}
		f = f[n:]
	}
	return round8(length), nil
}

func duration(sec, nsec uint32) time.Duration {
	return time.Duration(sec)*time.Second + time.Duration(nsec)
}

// Port is a port of the bridge.
type Port struct {
	Number uint32
	MAC    [6]byte
	Name   string // truncated to 15 bytes
	// Config has bits such as PortNoReceive.
	Config uint32
}

// Bits of Port.Config (OpenFlow 1.5.1, 7.2.1.1), as of ovs-ofctl(8).
const (
	PortNoReceive = 1 << 2 // drop received frames
	PortNoForward = 1 << 5 // drop sent frames
)

func appendPortDescRequest(b []byte, v Version, xid uint32) ([]byte, error) {
	start := len(b)
	b = appendMultipart(b, v, xid, multipartPortDesc)
	if v >= V15 {
		b = be.AppendUint32(b, PortAny)
		b = append(b, 0, 0, 0, 0)
	}
	return endMessage(b, start)
}

// OpenFlow 1.3.5, A.2.1; 1.5.1, 7.2.1.1
func decodePorts(b []byte, v Version) ([]Port, error) {
	var ports []Port
	for len(b) > 0 {
		n := 64
		if v >= V15 && len(b) >= 6 {
			n = int(be.Uint16(b[4:]))
		}
		if n < 40 || n > len(b) {
			return nil, malformed("port description: entry of %d bytes where %d are left", n, len(b))
		}
		name, _, _ := bytes.Cut(b[16:32], []byte{0})
		ports = append(ports, Port{be.Uint32(b), [6]byte(b[8:14]), string(name), be.Uint32(b[32:])})
		b = b[n:]
	}
	return ports, nil
}
