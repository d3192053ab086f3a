// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"cmp"
	"slices"
	"strings"
)

// Match says which packets a flow is for. The zero Match matches all. Matches
// are in a canonical form, whatever the order and the notation that they were
// made from, so they may be compared with == and be the key of a map.
type Match struct {
	oxm string // sorted, normalized TLVs
}

// NewMatch returns the match on all of the fields. It puts them into an order
// in which prerequisites come first, as Open vSwitch demands. A field whose
// mask is zero matches everything and is left out.
func NewMatch(fields ...Field) Match {
	normal := make([]Field, 0, len(fields))
	for _, f := range fields {
		normal = f.normalize(normal)
	}
	return matchOf(normal)
}

func matchOf(normal []Field) Match {
	slices.SortStableFunc(normal, func(a, b Field) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.vendor, b.vendor), cmp.Compare(a.id, b.id))
	})
	var b []byte
	for _, f := range normal {
		b = f.append(b)
	}
	return Match{string(b)}
}

// rank puts the standard fields before Nicira's, since some of Nicira's depend
// on them and none of the standard ones depends on another's.
func (f Field) rank() int {
	if f.class == classBasic {
		return -1
	}
	return int(f.class)
}

// Fields returns the fields in canonical order.
func (m Match) Fields() []Field {
	var fields []Field
	b := []byte(m.oxm)
	for len(b) > 0 {
		f, n, err := parseField(b)
		if err != nil {
			break // cannot be: the TLVs are our own
		}
		fields = append(fields, f)
		b = b[n:]
	}
	return fields
}

// Key returns a string that is equal for equal matches. It is not for reading.
func (m Match) Key() string { return m.oxm }

// String returns the match much as ovs-ofctl(8) writes it.
func (m Match) String() string {
	var s strings.Builder
	for i, f := range m.Fields() {
		if i > 0 {
			s.WriteByte(',')
		}
		s.WriteString(f.String())
	}
	return s.String()
}

// append appends an ofp_match with its padding (OpenFlow 1.5.1, 7.2.3.1).
func (m Match) append(b []byte) []byte {
	start := len(b)
	b = append(b, 0, 1) // OFPMT_OXM
	b = be.AppendUint16(b, uint16(4+len(m.oxm)))
	b = append(b, m.oxm...)
	return pad8(b, start)
}

// decodeOXM reads a sequence of TLVs. Fields it does not know are kept as they
// are; only a length that cannot be right is an error.
func decodeOXM(b []byte) (Match, error) {
	var fields []Field
	for len(b) > 0 {
		f, n, err := parseField(b)
		if err != nil {
			return Match{}, err
		}
		fields = f.normalize(fields)
		b = b[n:]
	}
	return matchOf(fields), nil
}

// decodeMatch reads an ofp_match and returns how many bytes it takes with its
// padding.
func decodeMatch(b []byte) (Match, int, error) {
	if len(b) < 4 {
		return Match{}, 0, malformed("match of %d bytes", len(b))
	}
	typ, length := be.Uint16(b), int(be.Uint16(b[2:]))
	if typ != 1 {
		return Match{}, 0, malformed("match of type %d, not OXM", typ)
	}
	if length < 4 || round8(length) > len(b) {
		return Match{}, 0, malformed("match with length %d in %d bytes", length, len(b))
	}
	m, err := decodeOXM(b[4:length])
	return m, round8(length), err
}

// VLAN returns the VLAN ID that packets have to have, 0 if none or any.
func (m Match) VLAN() uint16 {
	value, _ := m.Value(VLANID(0))
	return uint16(value & 0xfff)
}

// InPort returns the OpenFlow port that packets have to come from, 0 if any.
func (m Match) InPort() uint32 {
	value, _ := m.Value(InPort(0))
	return uint32(value)
}

// Value returns the value that packets have to have in the field of, whose own value does not matter. It
// reports whether there is one, without a mask and of 8 bytes at most.
func (m Match) Value(of Field) (value uint64, ok bool) {
	for _, f := range m.Fields() {
		if f.header() == of.header() && f.vendor == of.vendor && !f.masked && f.size <= 8 {
			for _, b := range f.value[:f.size] {
				value = value<<8 | uint64(b)
			}
			return value, true
		}
	}
	return 0, false
}
