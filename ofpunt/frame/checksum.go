// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"math/bits"
)

// sum adds b to acc in one's complement (RFC 1071). 2^16 is 1 modulo 0xffff, so wider words give the same sum after
// fold.
func sum(acc uint64, b []byte) uint64 {
	var carry uint64
	for len(b) >= 8 {
		acc, carry = bits.Add64(acc, binary.BigEndian.Uint64(b), carry)
		b = b[8:]
	}
	if len(b) >= 4 {
		acc, carry = bits.Add64(acc, uint64(binary.BigEndian.Uint32(b)), carry)
		b = b[4:]
	}
	if len(b) >= 2 {
		acc, carry = bits.Add64(acc, uint64(binary.BigEndian.Uint16(b)), carry)
		b = b[2:]
	}
	if len(b) == 1 {
		// An odd byte is the high half of a word.
		acc, carry = bits.Add64(acc, uint64(b[0])<<8, carry)
	}
	// All ones plus a carry wraps once more.
	acc, carry = bits.Add64(acc, 0, carry)
	return acc + carry
}

// add is for one number below 2^32.
func add(acc uint64, v uint32) uint64 {
	acc, carry := bits.Add64(acc, uint64(v), 0)
	return acc + carry
}

// isChecksumValid accepts a checksum of b and the pseudo header, or of the pseudo header alone (see UDP.Decode).
func isChecksumValid(b []byte, field uint16, proto uint32, pseudo uint64) bool {
	pseudo = add(pseudo, proto+uint32(len(b)))
	return fold(sum(pseudo, b)) == 0xffff || field == fold(pseudo)
}

// fold returns 0 only for 0.
func fold(acc uint64) uint16 {
	acc = acc>>32 + acc&0xffffffff
	acc = acc>>16 + acc&0xffff
	acc = acc>>16 + acc&0xffff
	acc = acc>>16 + acc&0xffff
	return uint16(acc)
}
