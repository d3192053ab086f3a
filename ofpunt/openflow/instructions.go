// SPDX-License-Identifier: Apache-2.0

package openflow

import "bytes"

// OVS lib/ofp-actions.c
const nxastRegLoad = 7

// Loaded returns what FlowStats.Instructions load into metadata and register n. It reports whether both are loaded
// as a whole.
func Loaded(instructions []byte, n int) (metadata uint64, register uint32, ok bool) {
	var hasMetadata, hasRegister bool
	metadataField, registerField := Metadata(0), Reg(n, 0)
	ok = eachLoad(instructions, func(f Field) {
		switch {
		case f.isPartOf(metadataField):
			metadata, hasMetadata = be.Uint64(f.value[:]), !f.masked
		case f.isPartOf(registerField):
			register, hasRegister = be.Uint32(f.value[:]), !f.masked
		}
	})
	if !ok {
		return 0, 0, false
	}
	return metadata, register, hasMetadata && hasRegister
}

// SetsBits reports whether FlowStats.Instructions set one of the bits of register n.
func SetsBits(instructions []byte, n int, bits uint32) (sets bool) {
	register := Reg(n, 0)
	ok := eachLoad(instructions, func(f Field) {
		sets = sets || f.isPartOf(register) && be.Uint32(f.value[:])&bits != 0
	})
	return ok && sets
}

// Resubmits reports whether FlowStats.Instructions resubmit to a table.
func Resubmits(instructions []byte) (resubmits bool) {
	ok := eachAction(instructions, func(a []byte) bool {
		resubmits = resubmits || isNicira(a, nxastResubmitTable)
		return true
	})
	return ok && resubmits
}

// NoteOf returns the text of the first [Note] in FlowStats.Instructions, if any, without padding.
func NoteOf(instructions []byte) (text string, has bool) {
	ok := eachAction(instructions, func(a []byte) bool {
		if !has && isNicira(a, nxastNote) {
			text, has = string(bytes.TrimRight(a[10:], "\x00")), true
		}
		return true
	})
	if !ok {
		return "", false
	}
	return text, has
}

// isPartOf reports whether f is the field of, whole or masked.
func (f Field) isPartOf(of Field) bool {
	return f.class == of.class && f.id == of.id && f.size == of.size
}

// eachAction calls visit for each action, with its header, until visit returns false. It reports false then, and for
// malformed actions.
func eachAction(b []byte, visit func(action []byte) bool) bool {
	for len(b) >= 8 {
		typ, length := be.Uint16(b), int(be.Uint16(b[2:]))
		if length < 8 || length > len(b) {
			return false
		}
		if typ == instrApplyActions && !splitActions(b[8:length], visit) {
			return false
		}
		b = b[length:]
	}
	return true
}

func splitActions(b []byte, visit func(action []byte) bool) bool {
	for len(b) > 0 {
		if len(b) < 8 {
			return false
		}
		length := int(be.Uint16(b[2:]))
		if length < 8 || length%8 != 0 || length > len(b) || !visit(b[:length]) {
			return false
		}
		b = b[length:]
	}
	return true
}

func isNicira(a []byte, subtype uint16) bool {
	return be.Uint16(a) == actExperimenter && len(a) >= 16 && be.Uint32(a[4:]) == experimenterNicira && be.Uint16(a[8:]) == subtype
}

// eachLoad calls load for each loaded field, masked if partial. It reports false for malformed actions.
func eachLoad(instructions []byte, load func(Field)) bool {
	return eachAction(instructions, func(a []byte) bool {
		switch {
		case be.Uint16(a) == actSetField:
			return loadField(a[4:], load)
		case isNicira(a, nxastRegLoad):
			return len(a) == 24 && a[15] <= 8 && loadField(regLoad(a), load)
		case isNicira(a, nxastRegLoad2):
			return loadField(a[16:], load)
		}
		return true
	})
}

// regLoad converts an NXAST_REG_LOAD of up to 8 bytes to OXM, masked if partial.
func regLoad(a []byte) []byte {
	offset, bits := int(be.Uint16(a[10:]))>>6, int(be.Uint16(a[10:]))&0x3f+1
	size := int(a[15])
	tlv := append([]byte{}, a[12:16]...)
	tlv = append(tlv, be.AppendUint64(nil, be.Uint64(a[16:])<<offset)[8-size:]...)
	if offset != 0 || bits != 8*size {
		tlv[2] |= 1
		tlv[3] = byte(2 * size)
		tlv = append(tlv, be.AppendUint64(nil, (1<<bits-1)<<offset)[8-size:]...)
	}
	return tlv
}

func loadField(b []byte, load func(Field)) bool {
	f, _, err := parseField(b)
	if err != nil {
		return false
	}
	for _, f := range f.normalize(nil) {
		load(f)
	}
	return true
}
