// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"slices"
)

const (
	etherIPv4    = 0x0800
	etherARP     = 0x0806
	etherVLAN    = 0x8100 // IEEE 802.1Q
	etherIPv6    = 0x86dd
	etherService = 0x88a8 // IEEE 802.1ad
)

const (
	linkLen = 14
	tagLen  = 4
)

// Tag is the IEEE 802.1Q tag of a frame.
type Tag struct {
	Tagged   bool
	VLAN     uint16 // 0 to 4095; 0 is priority only
	Priority uint16 // PCP and DEI, in the upper four bits
}

func (t Tag) tci() uint16 { return t.Priority&0xf000 | t.VLAN&0x0fff }

func (t Tag) inReply(tagged bool) Tag {
	t.Tagged = t.Tagged && tagged
	return t
}

// len is the length of an Ethernet header with t.
func (t Tag) len() int {
	if t.Tagged {
		return linkLen + tagLen
	}
	return linkLen
}

// link decodes the Ethernet header after the addresses.
func link(b []byte) (etherType uint16, tag Tag, rest []byte, err error) {
	if len(b) < linkLen {
		return 0, Tag{}, nil, Truncated
	}
	etherType, rest = binary.BigEndian.Uint16(b[12:]), b[linkLen:]
	if etherType != etherVLAN && etherType != etherService {
		return etherType, Tag{}, rest, nil
	}
	if len(rest) < tagLen {
		return 0, Tag{}, nil, Truncated
	}
	tci, inner := binary.BigEndian.Uint16(rest), binary.BigEndian.Uint16(rest[2:])
	switch {
	case inner == etherVLAN || inner == etherService:
		return 0, Tag{}, nil, TwoTags
	case etherType == etherService:
		return 0, Tag{}, nil, EtherType
	}
	return inner, Tag{Tagged: true, VLAN: tci & 0x0fff, Priority: tci & 0xf000}, rest[tagLen:], nil
}

// SenderMAC returns the source MAC, if b has one.
func SenderMAC(b []byte) (mac [6]byte, ok bool) {
	if len(b) < linkLen {
		return mac, false
	}
	return [6]byte(b[6:12]), true
}

func isGroup(mac [6]byte) bool { return mac[0]&1 != 0 }

// The n bytes have any content.
func extend(dst []byte, n int) (whole, added []byte) {
	whole = slices.Grow(dst, n)[:len(dst)+n]
	return whole, whole[len(dst):]
}

func putLink(b []byte, dst, src [6]byte, tag Tag, etherType uint16) []byte {
	copy(b, dst[:])
	copy(b[6:], src[:])
	if tag.Tagged {
		binary.BigEndian.PutUint16(b[12:], etherVLAN)
		binary.BigEndian.PutUint16(b[14:], tag.tci())
		b = b[tagLen:]
	}
	binary.BigEndian.PutUint16(b[12:], etherType)
	return b[linkLen:]
}
