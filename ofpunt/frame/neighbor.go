// SPDX-License-Identifier: Apache-2.0

package frame

import "net/netip"

// Neighbor is an ARP request (RFC 826) or an ICMPv6 neighbour solicitation (RFC 4861, section 4.3).
type Neighbor struct {
	// SrcMAC is the sender's claim: ARP sender or source link-layer address option, else the source of the frame.
	SrcMAC [6]byte
	Tag
	Sender netip.Addr // sender of the question
	Target netip.Addr // the asked node
	Kind   Kind       // KindARP or KindICMPv6
}

// Decode decodes the question in b. The error is a [Refusal], also for gratuitous announcements and address probes
// (from 0.0.0.0 or ::): an answer would make the guest see a duplicate address.
func (n *Neighbor) Decode(b []byte) error {
	etherType, tag, rest, err := link(b)
	if err != nil {
		return err
	}
	if isGroup([6]byte(b[6:])) {
		return SourceMAC
	}
	q := Neighbor{SrcMAC: [6]byte(b[6:]), Tag: tag}
	switch etherType {
	case etherARP:
		err = q.decodeARP(rest)
	case etherIPv6:
		err = q.decodeND(rest)
	default:
		err = EtherType
	}
	if err != nil {
		return err
	}
	switch {
	case isGroup(q.SrcMAC):
		return SourceMAC
	case q.Sender.IsUnspecified():
		return AddressProbe
	case !isHost(q.Sender):
		return SourceAddress
	case q.Sender == q.Target:
		return Gratuitous
	case !isHost(q.Target):
		return TargetAddress
	}
	*n = q
	return nil
}

// AppendReply appends to dst the reply with mac for the target. The reply has the tag of n if tagged. For an
// undecoded n it appends nothing.
func (n *Neighbor) AppendReply(dst []byte, mac [6]byte, tagged bool) []byte {
	tag := n.inReply(tagged)
	switch {
	case n.Sender.Is4() && n.Target.Is4():
		dst, b := extend(dst, tag.len()+arpLen)
		n.putARP(putLink(b, n.SrcMAC, mac, tag, etherARP), mac)
		return dst
	case n.Sender.Is6() && n.Target.Is6():
		dst, b := extend(dst, tag.len()+ipv6Len+advertLen)
		n.putND(putLink(b, n.SrcMAC, mac, tag, etherIPv6), mac)
		return dst
	}
	return dst
}
