// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
)

// UUID identifies a row. A server does not reuse it (RFC 7047 section 3.1).
type UUID [16]byte

const uuidLen = 36

// ParseUUID parses the form "2f77b348-9768-4866-b761-89d5177ecda0".
func ParseUUID(s string) (UUID, error) { return parseUUID([]byte(s)) }

func parseUUID(b []byte) (id UUID, err error) {
	if len(b) != uuidLen || b[8] != '-' || b[13] != '-' || b[18] != '-' || b[23] != '-' {
		return UUID{}, fmt.Errorf("%.40q is not a UUID", b)
	}
	var digits [32]byte
	copy(digits[0:8], b[0:8])
	copy(digits[8:12], b[9:13])
	copy(digits[12:16], b[14:18])
	copy(digits[16:20], b[19:23])
	copy(digits[20:32], b[24:36])
	if _, err := hex.Decode(id[:], digits[:]); err != nil {
		return UUID{}, fmt.Errorf("%.40q is not a UUID", b)
	}
	return id, nil
}

func (id UUID) String() string { return string(id.append(nil)) }

func (id UUID) append(b []byte) []byte {
	for i, n := range [...][2]int{{0, 4}, {4, 6}, {6, 8}, {8, 10}, {10, 16}} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, id[n[0]:n[1]])
	}
	return b
}

func (id UUID) Compare(other UUID) int { return bytes.Compare(id[:], other[:]) }

func (id UUID) MarshalText() ([]byte, error) { return id.append(nil), nil }

func (id *UUID) UnmarshalText(text []byte) (err error) {
	*id, err = parseUUID(text)
	return err
}

func SortUUIDs(ids []UUID) []UUID {
	slices.SortFunc(ids, UUID.Compare)
	return slices.Compact(ids)
}

func HasUUID(sorted []UUID, id UUID) bool {
	_, ok := slices.BinarySearchFunc(sorted, id, UUID.Compare)
	return ok
}
