// SPDX-License-Identifier: Apache-2.0

package frame

// Kind is the decoder for a frame.
type Kind uint8

// The kinds.
const (
	// KindOther has no decoder; UDP.Decode returns the reason.
	KindOther  Kind = iota
	KindUDP         // UDP.Decode
	KindTCP         // TCP.Decode
	KindARP         // Neighbor.Decode
	KindICMPv6      // Neighbor.Decode
	KindProbe       // ParseProbe
)

// KindOf reads EtherType and IP protocol. The decoder may refuse the frame.
func KindOf(b []byte) Kind {
	etherType, _, rest, err := link(b)
	if err != nil {
		return KindOther
	}
	switch etherType {
	case etherARP:
		return KindARP
	case EtherTypeProbe:
		return KindProbe
	case etherIPv4:
		if len(rest) < ipv4Len {
			return KindOther
		}
		switch rest[9] {
		case protoUDP:
			return KindUDP
		case protoTCP:
			return KindTCP
		}
	case etherIPv6:
		if len(rest) < ipv6Len {
			return KindOther
		}
		p := packet{payload: rest[ipv6Len:]}
		if p.headers(rest[6]) != nil {
			return KindOther
		}
		switch p.proto {
		case protoUDP:
			return KindUDP
		case protoTCP:
			return KindTCP
		case protoICMPv6:
			return KindICMPv6
		}
	}
	return KindOther
}
