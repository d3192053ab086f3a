// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"errors"
	"fmt"
)

// appendHello encodes the bitmap of our versions, all below 32 (OpenFlow 1.5.1, 7.5.1).
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

// decodeHello returns the bitmap of the peer's versions. Without a bitmap they are the HELLO's version and all
// below.
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

// versionError is errors.ErrUnsupported.
type versionError struct {
	ours   []Version
	theirs uint32
}

func (e versionError) Error() string {
	var theirs []Version
	for v := range Version(32) {
		if e.theirs>>v&1 != 0 && v > 0 {
			theirs = append(theirs, v)
		}
	}
	return fmt.Sprintf("no common OpenFlow version: puntdns speaks %v, the bridge speaks %v", e.ours, theirs)
}

func (versionError) Is(target error) bool { return target == errors.ErrUnsupported }

func appendEmpty(b []byte, v Version, typ uint8, xid uint32) []byte {
	start := len(b)
	return closeMessage(appendHeader(b, v, typ, xid), start)
}

func appendBarrier(b []byte, v Version, xid uint32) []byte {
	return appendEmpty(b, v, typeBarrier, xid)
}

func appendEchoReply(b, request []byte) []byte {
	start := len(b)
	b = append(b, request...)
	b[start+1] = typeEchoReply
	return b
}

func decodeFeatures(msg []byte) (uint64, error) {
	if len(msg) < 32 {
		return 0, malformed("features reply of %d bytes", len(msg))
	}
	return be.Uint64(msg[8:]), nil
}

func decodeConfig(msg []byte) (flags uint16, err error) {
	if len(msg) < 12 {
		return 0, malformed("config reply of %d bytes", len(msg))
	}
	return be.Uint16(msg[8:]), nil
}

// flags are for the whole bridge: pass its current flags.
func appendSetConfig(b []byte, v Version, xid uint32, flags, missSendLen uint16) []byte {
	start := len(b)
	b = appendHeader(b, v, typeSetConfig, xid)
	b = be.AppendUint16(b, flags)
	b = be.AppendUint16(b, missSendLen)
	return closeMessage(b, start)
}

// Packet-in reasons as bits (OpenFlow 1.5.1, 7.4.1).
const (
	reasonNoMatch   = 1 << 0
	reasonAction    = 1 << 1
	reasonActionSet = 1 << 3 // this and the following since 1.4
	reasonGroup     = 1 << 4
	reasonPacketOut = 1 << 5
)

// appendSetAsync enables packet-ins, and added and deleted ports (OpenFlow 1.3.5, A.3.10; 1.5.1, 7.3.10). A flow of
// priority 0 without a match has the reason "no match". Flow monitors are unaffected.
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
	// Properties 0 and 1 are packet-ins for the roles, 2 and 3 port status. Up to 11 are flow removed, role status,
	// table status and request forward.
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

func appendSetPacketInFormat(b []byte, v Version, xid uint32) []byte {
	start := len(b)
	b = appendExperimenter(b, v, xid, experimenterNicira, nxtSetPacketInFormat)
	b = be.AppendUint32(b, 2)
	return closeMessage(b, start)
}

func appendSetControllerID(b []byte, v Version, xid uint32, id uint16) []byte {
	start := len(b)
	b = appendExperimenter(b, v, xid, experimenterNicira, nxtSetControllerID)
	b = append(b, 0, 0, 0, 0, 0, 0)
	b = be.AppendUint16(b, id)
	return closeMessage(b, start)
}
