// SPDX-License-Identifier: Apache-2.0

package openflow

// nxastRegLoad is Nicira's action that loads bits of a field (lib/ofp-actions.c of Open vSwitch).
const nxastRegLoad = 7

// Loaded returns what the actions of a flow, FlowStats.Instructions, load into the metadata field
// and into register n. It reports whether they load both as a whole.
func Loaded(instructions []byte, n int) (metadata uint64, register uint32, ok bool) {
	var hasMetadata, hasRegister bool
	metadataField, registerField := Metadata(0), Reg(n, 0)
	load := func(f Field) {
		switch {
		case f.class == metadataField.class && f.id == metadataField.id && f.size == 8:
			metadata, hasMetadata = be.Uint64(f.value[:]), !f.masked
		case f.class == registerField.class && f.id == registerField.id && f.size == 4:
			register, hasRegister = be.Uint32(f.value[:]), !f.masked
		}
	}
	for b := instructions; len(b) >= 8; {
		typ, length := be.Uint16(b), int(be.Uint16(b[2:]))
		if length < 8 || length > len(b) {
			return 0, 0, false
		}
		if typ == instrApplyActions && !eachLoad(b[8:length], load) {
			return 0, 0, false
		}
		b = b[length:]
	}
	return metadata, register, hasMetadata && hasRegister
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
