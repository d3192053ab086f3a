// SPDX-License-Identifier: Apache-2.0

package openflow

import "fmt"

// Bundle control (OpenFlow 1.5.1, 7.3.9.2).
const (
	bundleOpen        = 0
	bundleCommit      = 4
	bundleCommitReply = 5
	bundleDiscard     = 6
	bundleAtomic      = 1 << 0
	bundleOrdered     = 1 << 1
	bundleFlags       = bundleAtomic | bundleOrdered
)

// appendBundle starts a bundle message: native in 1.5, ONF extension 230 in 1.3.
func appendBundle(b []byte, v Version, typ uint8, subtype, xid, id uint32, ctrl uint16) []byte {
	if v < V15 {
		b = appendExperimenter(b, v, xid, experimenterONF, subtype)
	} else {
		b = appendHeader(b, v, typ, xid)
	}
	b = be.AppendUint32(b, id)
	b = be.AppendUint16(b, ctrl)
	return be.AppendUint16(b, bundleFlags)
}

func appendBundleControl(b []byte, v Version, xid, id uint32, ctrl uint16) []byte {
	start := len(b)
	b = appendBundle(b, v, typeBundleControl, onfBundleControl, xid, id, ctrl)
	return closeMessage(b, start)
}

// Both messages have the xid.
func appendBundleAdd(b []byte, v Version, xid, id uint32, f *FlowMod) ([]byte, error) {
	start := len(b)
	b = appendBundle(b, v, typeBundleAdd, onfBundleAdd, xid, id, 0)
	b, err := AppendFlowMod(b, v, xid, f)
	if err != nil {
		return b[:start], err
	}
	b, err = endMessage(b, start)
	if err != nil {
		return b, fmt.Errorf("%v: %w", f.brief(), err)
	}
	return b, nil
}

func decodeBundleControl(msg []byte) (ctrl uint16, ok bool) {
	switch {
	case len(msg) >= 16 && msg[1] == typeBundleControl:
		return be.Uint16(msg[12:]), true
	case len(msg) >= 24 && msg[1] == typeExperimenter &&
		be.Uint32(msg[8:]) == experimenterONF && be.Uint32(msg[12:]) == onfBundleControl:
		return be.Uint16(msg[20:]), true
	}
	return 0, false
}
