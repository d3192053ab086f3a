// SPDX-License-Identifier: Apache-2.0

// Package openflow is a codec and a connection for OpenFlow 1.3 and 1.5, with the Nicira and ONF extensions of Open
// vSwitch (OVS). It implements what punts packets to a process and answers them. It knows neither packets nor flows.
//
//	        ┌─ reader ── next ─► dispatch ─┬─► Handler: packet-ins, flow and port events
//	        │    │ fill                    └─► call: the reply to a request that waits
//	switch ─┤    └─ flush: messages of handlers and tasks
//	        │
//	        └─ writer ◄─ queue ◄─ Write, and the requests
//
// Decoders check each length, skip unknown TLVs, and do not allocate by a number that the peer claims.
//
// # Goroutines and locks
//
// One goroutine reads at a time: NewConn's caller during the handshake, then a goroutine of Serve. Serve replaces a
// reader that a task blocks for too long. The writer is a goroutine; callers of Write may write while the socket is
// idle. Conn.queueMu guards the queue, Conn.mu the requests and the reason of the end. No goroutine holds both.
package openflow

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Version is an OpenFlow version, the first byte of a message.
type Version uint8

// OVS sometimes answers in version 1.0 (see SwitchError), whatever was negotiated.
const (
	V10 Version = 1
	V13 Version = 4
	V15 Version = 6
)

func (v Version) String() string {
	if v >= 1 && v <= 6 {
		return fmt.Sprintf("OpenFlow 1.%d", v-1)
	}
	return fmt.Sprintf("OpenFlow version %#02x", uint8(v))
}

// Reserved ports (OpenFlow 1.5.1, 7.2.1.2, ofp_port_no).
const (
	PortInPort     uint32 = 0xfffffff8 // the ingress port
	PortTable      uint32 = 0xfffffff9 // packet-out only: through the flow tables
	PortNormal     uint32 = 0xfffffffa
	PortFlood      uint32 = 0xfffffffb
	PortAll        uint32 = 0xfffffffc
	PortController uint32 = 0xfffffffd
	PortLocal      uint32 = 0xfffffffe
	PortAny        uint32 = 0xffffffff
)

// TableAll means every table.
const TableAll uint8 = 0xff

const (
	headerLen = 8
	// maximum of a header's length field
	maxMessage = 0xffff

	noBuffer = 0xffffffff
	groupAny = 0xffffffff
)

// Message types (OpenFlow 1.5.1, 7.1.1, ofp_type), equal in 1.3 and 1.5.
const (
	typeHello           = 0
	typeError           = 1
	typeEchoRequest     = 2
	typeEchoReply       = 3
	typeExperimenter    = 4
	typeFeaturesRequest = 5
	typeFeaturesReply   = 6
	typeGetConfig       = 7
	typeGetConfigReply  = 8
	typeSetConfig       = 9
	typePacketIn        = 10
	typeFlowRemoved     = 11
	typePortStatus      = 12
	typePacketOut       = 13
	typeFlowMod         = 14
	typeMultipart       = 18
	typeMultipartReply  = 19
	typeBarrier         = 20
	typeBarrierReply    = 21
	typeSetAsync        = 28
	typeMeterMod        = 29
	typeBundleControl   = 33 // 1.4 and later
	typeBundleAdd       = 34 // 1.4 and later
)

// OVS include/openflow/nicira-ext.h, include/openflow/openflow-1.3.h
const (
	experimenterNicira = 0x00002320
	experimenterONF    = 0x4f4e4600

	nxtSetPacketInFormat = 16
	nxtSetControllerID   = 20
	nxtPacketIn2         = 30

	onfFlowMonitor        = 1870 // multipart subtype
	onfFlowMonitorPaused  = 1871
	onfFlowMonitorResumed = 1872
	onfBundleControl      = 2300
	onfBundleAdd          = 2301
)

// ErrMalformed is wrapped by errors about invalid OpenFlow.
var ErrMalformed = errors.New("malformed OpenFlow")

// ErrTooLong is wrapped by errors about messages above 65,535 bytes.
var ErrTooLong = errors.New("OpenFlow message longer than 65535 bytes")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

var be = binary.BigEndian

type header struct {
	version Version
	typ     uint8
	length  int
	xid     uint32
}

// b may have only the start of a message.
func parseHeader(b []byte) (header, error) {
	if len(b) < headerLen {
		return header{}, malformed("%d bytes are too few for a header", len(b))
	}
	h := header{Version(b[0]), b[1], int(be.Uint16(b[2:])), be.Uint32(b[4:])}
	if h.length < headerLen {
		return header{}, malformed("header with length %d", h.length)
	}
	return h, nil
}

// appendHeader starts a message; endMessage sets its length.
func appendHeader(b []byte, v Version, typ uint8, xid uint32) []byte {
	b = append(b, byte(v), typ, 0, 0)
	return be.AppendUint32(b, xid)
}

func appendExperimenter(b []byte, v Version, xid, experimenter, subtype uint32) []byte {
	b = appendHeader(b, v, typeExperimenter, xid)
	b = be.AppendUint32(b, experimenter)
	return be.AppendUint32(b, subtype)
}

func endMessage(b []byte, start int) ([]byte, error) {
	n := len(b) - start
	if n > maxMessage {
		return b[:start], fmt.Errorf("%w: %d", ErrTooLong, n)
	}
	be.PutUint16(b[start+2:], uint16(n))
	return b, nil
}

// closeMessage is endMessage for small messages.
func closeMessage(b []byte, start int) []byte {
	be.PutUint16(b[start+2:], uint16(len(b)-start))
	return b
}

func pad8(b []byte, start int) []byte {
	var zeros [8]byte
	return append(b, zeros[:-(len(b)-start)&7]...)
}

func round8(n int) int { return (n + 7) &^ 7 }

// for errors
func messageName(b []byte) string {
	if len(b) < headerLen {
		return "unknown request"
	}
	sub := func() (vendor, subtype uint32) {
		if len(b) >= 16 {
			return be.Uint32(b[8:]), be.Uint32(b[12:])
		}
		return 0, 0
	}
	switch b[1] {
	case typeHello:
		return "HELLO"
	case typeEchoRequest:
		return "ECHO_REQUEST"
	case typeEchoReply:
		return "ECHO_REPLY"
	case typeFeaturesRequest:
		return "FEATURES_REQUEST"
	case typeGetConfig:
		return "GET_CONFIG_REQUEST"
	case typeSetConfig:
		return "SET_CONFIG"
	case typePacketOut:
		return "PACKET_OUT"
	case typeFlowMod:
		return "FLOW_MOD"
	case typeBarrier:
		return "BARRIER_REQUEST"
	case typeSetAsync:
		return "SET_ASYNC"
	case typeMeterMod:
		return "METER_MOD"
	case typeBundleControl:
		return "BUNDLE_CONTROL"
	case typeBundleAdd:
		return "BUNDLE_ADD_MESSAGE"
	case typeMultipart:
		if len(b) >= 10 {
			switch be.Uint16(b[8:]) {
			case multipartFlow:
				return "FLOW_STATS_REQUEST"
			case multipartPortDesc:
				return "PORT_DESC_REQUEST"
			case multipartFlowMonitor, multipartExperimenter:
				return "FLOW_MONITOR_REQUEST"
			}
		}
		return "MULTIPART_REQUEST"
	case typeExperimenter:
		switch vendor, subtype := sub(); {
		case vendor == experimenterNicira && subtype == nxtSetPacketInFormat:
			return "NXT_SET_PACKET_IN_FORMAT"
		case vendor == experimenterNicira && subtype == nxtSetControllerID:
			return "NXT_SET_CONTROLLER_ID"
		case vendor == experimenterONF && subtype == onfBundleControl:
			return "BUNDLE_CONTROL"
		case vendor == experimenterONF && subtype == onfBundleAdd:
			return "BUNDLE_ADD_MESSAGE"
		default:
			return fmt.Sprintf("experimenter message %#x/%d", vendor, subtype)
		}
	}
	return fmt.Sprintf("message of type %d", b[1])
}
