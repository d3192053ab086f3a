// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bytes"
	"fmt"
	"strings"
)

// SwitchError is an ERROR message. For a flow monitor, OVS may send it in OpenFlow 1.0 with xid 0.
type SwitchError struct {
	Version Version // of the error message
	XID     uint32
	Type    uint16 // 0xffff if Experimenter is set, except in version 1.0
	Code    uint16
	// Experimenter is 0 for standard errors.
	Experimenter uint32
	// Request is the text of the refused FlowMod, else the kind of message, such as SET_ASYNC.
	Request string
	// Data is the start of the request, or a text if the hello failed.
	Data []byte
}

const (
	errorHelloFailed  = 0
	errorExperimenter = 0xffff
	errorNicira10     = 0xb0c2 // of version 1.0 (NXET_VENDOR)
)

func decodeError(msg []byte) (*SwitchError, error) {
	if len(msg) < 12 || msg[1] != typeError {
		return nil, malformed("error message of %d bytes", len(msg))
	}
	e := &SwitchError{
		Version: Version(msg[0]),
		XID:     be.Uint32(msg[4:]),
		Type:    be.Uint16(msg[8:]),
		Code:    be.Uint16(msg[10:]),
	}
	data := msg[12:]
	switch {
	case e.Version == V10 && e.Type == errorNicira10 && e.Code == 0:
		if len(data) < 8 {
			return nil, malformed("error message: Nicira error of %d bytes", len(data))
		}
		e.Experimenter, e.Type, e.Code = be.Uint32(data), be.Uint16(data[4:]), be.Uint16(data[6:])
		data = data[8:]
	case e.Type == errorExperimenter:
		if len(data) < 4 {
			return nil, malformed("error message: experimenter error of %d bytes", len(data))
		}
		e.Experimenter = be.Uint32(data)
		data = data[4:]
	}
	e.Data = bytes.Clone(data)
	if e.Type != errorHelloFailed || e.Experimenter != 0 {
		e.Request = messageName(data)
	}
	return e, nil
}

// Name returns the name in OpenFlow or OVS, such as OFPBMC_BAD_PREREQ, or the numbers.
func (e *SwitchError) Name() string {
	// Standard types above 2 differ in version 1.0.
	other := e.Version == V10 && e.Experimenter == 0 && e.Type > 2
	if name := errorNames[errorKey{e.Experimenter, e.Type, e.Code}]; name != "" && !other {
		return name
	}
	if e.Experimenter != 0 {
		return fmt.Sprintf("experimenter %#x, type %#x, code %d", e.Experimenter, e.Type, e.Code)
	}
	return fmt.Sprintf("type %d, code %d", e.Type, e.Code)
}

func (e *SwitchError) Error() string {
	s := "switch refused"
	if e.Request != "" {
		s += " " + e.Request
	}
	s += ": " + e.Name()
	if e.Type == errorHelloFailed && e.Experimenter == 0 && len(e.Data) > 0 {
		s += fmt.Sprintf(" (%q)", e.Data)
	}
	return s
}

type errorKey struct {
	experimenter uint32
	typ, code    uint16
}

// OpenFlow 1.5.1, 7.5.4; OVS include/openvswitch/ofp-errors.h
var errorNames = makeErrorNames()

func makeErrorNames() map[errorKey]string {
	names := map[errorKey]string{}
	// A dash is a code without a name.
	standard := func(typ uint16, prefix, codes string) {
		for code, name := range strings.Fields(codes) {
			if name != "-" {
				names[errorKey{0, typ, uint16(code)}] = prefix + "_" + name
			}
		}
	}
	standard(0, "OFPHFC", "INCOMPATIBLE EPERM")
	standard(1, "OFPBRC", `BAD_VERSION BAD_TYPE BAD_STAT BAD_VENDOR BAD_SUBTYPE EPERM BAD_LEN
		BUFFER_EMPTY BUFFER_UNKNOWN BAD_TABLE_ID IS_SECONDARY BAD_PORT BAD_PACKET
		MULTIPART_BUFFER_OVERFLOW MULTIPART_REQUEST_TIMEOUT MULTIPART_REPLY_TIMEOUT
		MULTIPART_BAD_SCHED PIPELINE_FIELDS_ONLY UNKNOWN`)
	standard(2, "OFPBAC", `BAD_TYPE BAD_LEN BAD_VENDOR BAD_VENDOR_TYPE BAD_OUT_PORT BAD_ARGUMENT
		EPERM TOO_MANY BAD_QUEUE BAD_OUT_GROUP MATCH_INCONSISTENT UNSUPPORTED_ORDER BAD_TAG
		BAD_SET_TYPE BAD_SET_LEN BAD_SET_ARGUMENT BAD_SET_MASK BAD_METER`)
	standard(3, "OFPBIC", `UNKNOWN_INST UNSUP_INST BAD_TABLE_ID UNSUP_METADATA
		UNSUP_METADATA_MASK BAD_EXPERIMENTER BAD_EXP_TYPE BAD_LEN EPERM DUP_INST`)
	standard(4, "OFPBMC", `BAD_TYPE BAD_LEN BAD_TAG BAD_DL_ADDR_MASK BAD_NW_ADDR_MASK
		BAD_WILDCARDS BAD_FIELD BAD_VALUE BAD_MASK BAD_PREREQ DUP_FIELD EPERM`)
	standard(5, "OFPFMFC", `UNKNOWN TABLE_FULL BAD_TABLE_ID OVERLAP EPERM BAD_TIMEOUT
		BAD_COMMAND BAD_FLAGS CANT_SYNC BAD_PRIORITY IS_SYNC`)
	standard(10, "OFPSCFC", "BAD_FLAGS BAD_LEN EPERM")
	standard(12, "OFPMMFC", `UNKNOWN METER_EXISTS INVALID_METER UNKNOWN_METER BAD_COMMAND
		BAD_FLAGS BAD_RATE BAD_BURST BAD_BAND BAD_BAND_VALUE OUT_OF_METERS OUT_OF_BANDS`)
	standard(14, "OFPBPC", `BAD_TYPE BAD_LEN BAD_VALUE TOO_MANY DUP_TYPE BAD_EXPERIMENTER
		BAD_EXP_TYPE BAD_EXP_VALUE EPERM`)
	standard(15, "OFPACFC", "INVALID UNSUPPORTED EPERM")
	standard(16, "OFPMOFC", `UNKNOWN MONITOR_EXISTS INVALID_MONITOR UNKNOWN_MONITOR BAD_COMMAND
		BAD_FLAGS BAD_TABLE_ID BAD_OUT`)
	bundle := `UNKNOWN EPERM BAD_ID BUNDLE_EXIST BUNDLE_CLOSED OUT_OF_BUNDLES BAD_TYPE BAD_FLAGS
		MSG_BAD_LEN MSG_BAD_XID MSG_UNSUP MSG_CONFLICT MSG_TOO_MANY MSG_FAILED TIMEOUT
		BUNDLE_IN_PROGRESS`
	standard(17, "OFPBFC", bundle)
	for i, name := range strings.Fields(bundle) {
		names[errorKey{experimenterONF, errorExperimenter, uint16(2300 + i)}] = "OFPBFC_" + name
	}
	add := func(experimenter uint32, typ uint16, codes map[uint16]string) {
		for code, name := range codes {
			names[errorKey{experimenter, typ, code}] = name
		}
	}
	add(experimenterONF, errorExperimenter, map[uint16]string{
		2600: "OFPBIC_DUP_INST",
		2360: "OFPFMFC_BAD_PRIORITY",
		2370: "OFPACFC_INVALID",
		2371: "OFPACFC_UNSUPPORTED",
		2372: "OFPACFC_EPERM",
		4250: "OFPBAC_BAD_SET_MASK",
	})
	add(experimenterNicira, errorExperimenter, map[uint16]string{
		2:  "NXBRC_NXM_INVALID",
		3:  "NXBRC_NXM_BAD_TYPE",
		4:  "NXBRC_MUST_BE_ZERO",
		5:  "NXBRC_BAD_REASON",
		6:  "OFPMOFC_MONITOR_EXISTS",
		7:  "OFPMOFC_BAD_FLAGS",
		8:  "OFPMOFC_UNKNOWN_MONITOR",
		9:  "NXBRC_FM_BAD_EVENT",
		10: "NXBRC_UNENCODABLE_ERROR",
		11: "NXBAC_MUST_BE_ZERO",
		12: "NXFMFC_HARDWARE",
		13: "NXFMFC_BAD_TABLE_ID",
		22: "OFPBFC_BAD_VERSION",
		25: "OFPBPC_BAD_TYPE",
		26: "OFPBPC_BAD_LEN",
		27: "OFPBPC_BAD_VALUE",
		42: "NXBAC_CT_DATAPATH_SUPPORT",
		43: "NXBMC_CT_DATAPATH_SUPPORT",
	})
	// In version 1.0, in which OVS answers a refused flow monitor.
	add(experimenterNicira, 1, map[uint16]string{
		512: "OFPBRC_BAD_TABLE_ID",
		515: "NXBRC_MUST_BE_ZERO",
		517: "OFPMOFC_MONITOR_EXISTS",
		518: "OFPMOFC_BAD_FLAGS",
		519: "OFPMOFC_UNKNOWN_MONITOR",
		521: "NXBRC_UNENCODABLE_ERROR",
	})
	return names
}
