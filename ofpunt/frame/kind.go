// SPDX-License-Identifier: Apache-2.0

package frame

// Kind says which decoder a frame is for.
type Kind uint8

// The kinds of frames.
const (
	// KindOther is for none of the decoders; the error of UDP.Decode is the reason.
	KindOther  Kind = iota
	KindUDP         // UDP.Decode
	KindTCP         // TCP.Decode
	KindARP         // Neighbor.Decode
	KindICMPv6      // Neighbor.Decode
	KindProbe       // ParseProbe
)

// KindOf looks at the EtherType behind at most one tag, and at the protocol of
// an IP packet behind its extension headers. It checks no more than it needs to
// get there: the decoder may still refuse the frame.
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
