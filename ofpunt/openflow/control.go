// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"errors"
	"fmt"
)

// appendHello encodes a HELLO with the bitmap of the versions that we speak,
// none of which is above 31 (OpenFlow 1.5.1, 7.5.1).
func appendHello(b []byte, xid uint32, versions []Version) []byte {
	var bitmap uint32
	var highest Version
	for _, v := range versions {
		bitmap |= 1 << v
		highest = max(highest, v)
	}
	start := len(b)
	b = appendHeader(b, highest, typeHello, xid)
	b = append(b, 0, 1, 0, 8) // OFPHET_VERSIONBITMAP
	b = be.AppendUint32(b, bitmap)
	return closeMessage(b, start)
}

// decodeHello returns the bitmap of the versions that the peer speaks. A HELLO
// without one stands for its version and all below.
func decodeHello(msg []byte) (uint32, error) {
	h, err := parseHeader(msg)
	if err != nil {
		return 0, err
	}
	for b := msg[headerLen:]; len(b) >= 4; {
		typ, n := be.Uint16(b), int(be.Uint16(b[2:]))
		if n < 4 || n > len(b) {
			return 0, malformed("hello: element %d with length %d in %d bytes", typ, n, len(b))
		}
		if typ == 1 && n >= 8 {
			return be.Uint32(b[4:]), nil
		}
		b = b[min(round8(n), len(b)):]
	}
	if h.version >= 31 {
		return ^uint32(0), nil
	}
	return 1<<(h.version+1) - 1, nil
}

// negotiate returns the highest version that both sides speak.
func negotiate(ours []Version, theirs uint32) (Version, error) {
	var best Version
	for _, v := range ours {
		if theirs>>v&1 != 0 {
			best = max(best, v)
		}
	}
	if best == 0 {
		return 0, versionError{ours, theirs}
	}
	return best, nil
}

// versionError says that both sides have no common version. It is errors.ErrUnsupported.
type versionError struct {
	ours   []Version
	theirs uint32 // bits by version
}

// Error implements error.
func (e versionError) Error() string {
	var theirs []Version
	for v := range Version(32) {
		if e.theirs>>v&1 != 0 && v > 0 {
			theirs = append(theirs, v)
		}
	}
	return fmt.Sprintf("no common OpenFlow version: puntdns speaks %v, the bridge speaks %v", e.ours, theirs)
}

// Is serves errors.Is.
func (versionError) Is(target error) bool { return target == errors.ErrUnsupported }

// appendEmpty encodes a message that has only a header, such as
// BARRIER_REQUEST.
func appendEmpty(b []byte, v Version, typ uint8, xid uint32) []byte {
	start := len(b)
	return closeMessage(appendHeader(b, v, typ, xid), start)
}

// appendBarrier encodes a BARRIER_REQUEST message.
func appendBarrier(b []byte, v Version, xid uint32) []byte {
	return appendEmpty(b, v, typeBarrier, xid)
}

// appendEchoReply answers an ECHO_REQUEST with the same payload.
func appendEchoReply(b, request []byte) []byte {
	start := len(b)
	b = append(b, request...)
	b[start+1] = typeEchoReply
	return b
}

// decodeFeatures returns the datapath id of a FEATURES_REPLY.
func decodeFeatures(msg []byte) (uint64, error) {
	if len(msg) < 32 {
		return 0, malformed("features reply of %d bytes", len(msg))
	}
	return be.Uint64(msg[8:]), nil
}

// decodeConfig returns the flags of a GET_CONFIG_REPLY.
func decodeConfig(msg []byte) (flags uint16, err error) {
	if len(msg) < 12 {
		return 0, malformed("config reply of %d bytes", len(msg))
	}
	return be.Uint16(msg[8:]), nil
}

// appendSetConfig encodes a SET_CONFIG. The flags are for the whole bridge, so they must be the flags that
// the bridge has.
func appendSetConfig(b []byte, v Version, xid uint32, flags, missSendLen uint16) []byte {
	start := len(b)
	b = appendHeader(b, v, typeSetConfig, xid)
	b = be.AppendUint16(b, flags)
	b = be.AppendUint16(b, missSendLen)
	return closeMessage(b, start)
}

// Reasons of a packet-in as bits (OpenFlow 1.5.1, 7.4.1).
const (
	reasonNoMatch   = 1 << 0
	reasonAction    = 1 << 1
	reasonActionSet = 1 << 3 // this and the next 1.4 and later
	reasonGroup     = 1 << 4
	reasonPacketOut = 1 << 5
)

// appendSetAsync encodes a SET_ASYNC for packet-ins that a flow has caused and for ports
// that are added and deleted, and for no other asynchronous messages (OpenFlow
// 1.3.5, A.3.10; 1.5.1, 7.3.10). The flow may be one of priority 0 without a
// match, whose packet-ins have the reason "no match". What a flow monitor sends
// does not depend on it.
func appendSetAsync(b []byte, v Version, xid uint32) []byte {
	start := len(b)
	b = appendHeader(b, v, typeSetAsync, xid)
	if v < V15 {
		for _, mask := range [6]uint32{
			reasonNoMatch | reasonAction, reasonNoMatch | reasonAction, portStatusMask, portStatusMask,
		} {
			b = be.AppendUint32(b, mask)
		}
		return closeMessage(b, start)
	}
	// Properties 0 and 1 are packet-ins for a secondary and for a primary or
	// equal role, 2 and 3 port status; up to 11 follow flow removed, role
	// status, table status and request forward in the same way.
	for prop := range 12 {
		var mask uint32
		switch {
		case prop < 2:
			mask = reasonNoMatch | reasonAction | reasonActionSet | reasonGroup | reasonPacketOut
		case prop < 4:
			mask = portStatusMask
		}
		b = append(b, 0, byte(prop), 0, 8)
		b = be.AppendUint32(b, mask)
	}
	return closeMessage(b, start)
}

// appendSetPacketInFormat asks for packet-ins as NXT_PACKET_IN2.
func appendSetPacketInFormat(b []byte, v Version, xid uint32) []byte {
	start := len(b)
	b = appendExperimenter(b, v, xid, experimenterNicira, nxtSetPacketInFormat)
	b = be.AppendUint32(b, 2)
	return closeMessage(b, start)
}

// appendSetControllerID sets the id that packet-ins for this connection carry
// in their Controller2.
func appendSetControllerID(b []byte, v Version, xid uint32, id uint16) []byte {
	start := len(b)
	b = appendExperimenter(b, v, xid, experimenterNicira, nxtSetControllerID)
	b = append(b, 0, 0, 0, 0, 0, 0)
	b = be.AppendUint16(b, id)
	return closeMessage(b, start)
}
