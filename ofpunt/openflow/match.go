// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strings"
)

// Match selects packets. The zero Match matches all. A Match is canonical: compare it with ==, or use it as a map
// key.
type Match struct {
	oxm string // sorted, normalized TLVs
}

// NewMatch sorts prerequisites first, as OVS demands, and omits fields with a zero mask.
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

// Nicira's fields may depend on standard fields.
func (f Field) rank() int {
	if f.class == classBasic {
		return -1
	}
	return int(f.class)
}

// Fields returns the fields in canonical order.
func (m Match) Fields() []Field { return slices.Collect(m.all()) }

func (m Match) all() iter.Seq[Field] {
	return func(yield func(Field) bool) {
		for b := []byte(m.oxm); len(b) > 0; {
			f, n, err := parseField(b)
			if err != nil || !yield(f) { // our own TLVs have no errors
				return
			}
			b = b[n:]
		}
	}
}

// Key returns an opaque string, equal for equal matches.
func (m Match) Key() string { return m.oxm }

// String returns the format of ovs-ofctl(8).
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

// OpenFlow 1.5.1, 7.2.3.1
func (m Match) append(b []byte) []byte {
	start := len(b)
	b = append(b, 0, 1) // OFPMT_OXM
	b = be.AppendUint16(b, uint16(4+len(m.oxm)))
	b = append(b, m.oxm...)
	return pad8(b, start)
}

// decodeOXM retains unknown fields.
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

// decodeMatch also returns the padded length.
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

// VLAN returns the matched VLAN ID, 0 if none or any.
func (m Match) VLAN() uint16 {
	value, _ := m.Value(VLANID(0))
	return uint16(value & 0xfff)
}

// InPort returns the matched OpenFlow port, 0 if any.
func (m Match) InPort() uint32 {
	value, _ := m.Value(InPort(0))
	return uint32(value)
}

// Destination returns the unmasked IPv4 or IPv6 destination, if any.
func (m Match) Destination() (a netip.Addr, ok bool) {
	for f := range m.all() {
		if f.class == classBasic && (f.id == oxmIPv4Dst || f.id == oxmIPv6Dst) && !f.masked {
			value, _ := f.payload()
			return netip.AddrFromSlice(value)
		}
	}
	return a, false
}

// Value returns the unmasked value, of up to 8 bytes, of the field that of names, if any.
func (m Match) Value(of Field) (value uint64, ok bool) {
	for f := range m.all() {
		if f.header() == of.header() && f.vendor == of.vendor && !f.masked && f.size <= 8 {
			for _, b := range f.value[:f.size] {
				value = value<<8 | uint64(b)
			}
			return value, true
		}
	}
	return 0, false
}
