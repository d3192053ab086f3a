// SPDX-License-Identifier: Apache-2.0

package openflow

// nxastRegLoad is Nicira's action that loads bits of a field (lib/ofp-actions.c of Open vSwitch).
const nxastRegLoad = 7

// Loaded returns what the actions of a flow, FlowStats.Instructions, load into the metadata field
// and into register n. It reports whether they load both as a whole.
func Loaded(instructions []byte, n int) (metadata uint64, register uint32, ok bool) {
	var hasMetadata, hasRegister bool
	metadataField, registerField := Metadata(0), Reg(n, 0)
	ok = eachInstruction(instructions, func(f Field) {
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

// SetsBits reports whether the actions of a flow, FlowStats.Instructions, set a bit of register n.
func SetsBits(instructions []byte, n int) (sets bool) {
	register := Reg(n, 0)
	ok := eachInstruction(instructions, func(f Field) {
		sets = sets || f.isPartOf(register) && be.Uint32(f.value[:]) != 0
	})
	return ok && sets
}

// isPartOf reports whether f is the field of, or with a mask a part of it.
func (f Field) isPartOf(of Field) bool {
	return f.class == of.class && f.id == of.id && f.size == of.size
}

// eachInstruction calls load for each field that the actions of a flow load. It reports whether these could be read.
func eachInstruction(b []byte, load func(Field)) bool {
	for len(b) >= 8 {
		typ, length := be.Uint16(b), int(be.Uint16(b[2:]))
		if length < 8 || length > len(b) {
			return false
		}
		if typ == instrApplyActions && !eachLoad(b[8:length], load) {
			return false
		}
		b = b[length:]
	}
	return true
}

// eachLoad calls load for each field that actions load, with a mask if that is not the whole field.
// It reports whether the actions could be read.
func eachLoad(b []byte, load func(Field)) bool {
	for len(b) > 0 {
		if len(b) < 8 {
			return false
		}
		typ, length := be.Uint16(b), int(be.Uint16(b[2:]))
		if length < 8 || length%8 != 0 || length > len(b) {
			return false
		}
		var tlv []byte
		switch a := b[:length]; {
		case typ == actSetField:
			tlv = a[4:]
		case typ == actExperimenter && length >= 16 && be.Uint32(a[4:]) == experimenterNicira:
			switch be.Uint16(a[8:]) {
			case nxastRegLoad:
				if length != 24 || a[15] > 8 {
					return false
				}
				tlv = regLoad(a)
			case nxastRegLoad2:
				tlv = a[16:]
			}
		}
		if tlv != nil && !loadField(tlv, load) {
			return false
		}
		b = b[length:]
	}
	return true
}

// regLoad returns an NXAST_REG_LOAD, of a field of up to 8 bytes, as the field in OXM form; of a part
// of a field with a mask, whose bits do not matter.
func regLoad(a []byte) []byte {
	offset, bits := int(be.Uint16(a[10:]))>>6, int(be.Uint16(a[10:]))&0x3f+1
	size := int(a[15])
	tlv := append([]byte{}, a[12:16]...)
	value := a[16:24]
	tlv = append(tlv, value[len(value)-size:]...)
	if offset != 0 || bits != 8*size {
		tlv[2] |= 1
		tlv[3] = byte(2 * size)
		tlv = append(append(tlv, make([]byte, max(0, size-1))...), 1)
	}
	return tlv
}

// loadField calls load for the field at the start of b.
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
