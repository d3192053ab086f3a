// SPDX-License-Identifier: Apache-2.0

package frame

import "slices"

// Refusal is the reason why a frame was not decoded. The value is a short label
// in kebab case, fit for a Prometheus label; compare it with errors.Is, or take
// it out of an error with errors.As.
type Refusal string

// The reasons, from the outside of a frame to the inside.
const (
	// Truncated: the frame ends inside a fixed header.
	Truncated Refusal = "truncated"
	// SourceMAC: the hardware address to answer is a group address.
	SourceMAC Refusal = "source-mac"
	// DestinationMAC: a datagram to a group address, which cannot be the source
	// of an answer.
	DestinationMAC Refusal = "destination-mac"
	// TwoTags: a second VLAN tag behind the first.
	TwoTags Refusal = "two-tags"
	// EtherType: a protocol that the decoder does not take, an IEEE 802.3 length
	// and a lone IEEE 802.1ad service tag included.
	EtherType Refusal = "ethertype"

	// IPHeader: the version contradicts the EtherType, or the IPv4 header is
	// shorter than 20 bytes.
	IPHeader Refusal = "ip-header"
	// IPLength: the length in the IP header does not fit the header or the frame.
	IPLength Refusal = "ip-length"
	// IPChecksum: the IPv4 header checksum is wrong.
	IPChecksum Refusal = "ip-checksum"
	// IPOptions: options that are malformed, that require unknowing nodes to discard the packet (RFC 8200
	// section 4.2), or that source-route an IPv4 packet (RFC 7126 section 4.3).
	IPOptions Refusal = "ip-options"
	// ExtensionHeaders: an IPv6 extension header that is cut off or stands where
	// it must not, or too many of them.
	ExtensionHeaders Refusal = "extension-headers"
	// RoutingHeader: an IPv6 packet that has further segments to visit, so that
	// its destination address is not where it goes.
	RoutingHeader Refusal = "routing-header"
	// Fragment: a part of a packet. It is never reassembled, as the parts of two tenants can't be
	// distinguished.
	Fragment Refusal = "fragment"
	// Protocol: not the protocol that the decoder takes.
	Protocol Refusal = "protocol"
	// SourceAddress: an address that must not be answered: unspecified,
	// loopback, multicast, broadcast, or an IPv4 address mapped into IPv6.
	SourceAddress Refusal = "source-address"
	// DestinationAddress: an address that cannot be the source of an answer, for
	// the same reasons.
	DestinationAddress Refusal = "destination-address"

	// UDPLength: the length in the UDP header is below 8 or above what the IP
	// packet holds.
	UDPLength Refusal = "udp-length"
	// UDPChecksum: the UDP checksum is wrong, or absent in IPv6.
	UDPChecksum Refusal = "udp-checksum"
	// TCPLength: the TCP header is shorter than 20 bytes or longer than the segment.
	TCPLength Refusal = "tcp-length"
	// TCPChecksum: the TCP checksum is wrong.
	TCPChecksum Refusal = "tcp-checksum"
	// Port: source or destination port 0.
	Port Refusal = "port"

	// ARPFormat: not ARP for IPv4 on Ethernet.
	ARPFormat Refusal = "arp-format"
	// ARPOperation: not an ARP request.
	ARPOperation Refusal = "arp-operation"
	// ICMPType: not a neighbour solicitation.
	ICMPType Refusal = "icmp-type"
	// ICMPChecksum: the ICMPv6 checksum is wrong.
	ICMPChecksum Refusal = "icmp-checksum"
	// HopLimit: a neighbour solicitation that a router has forwarded.
	HopLimit Refusal = "hop-limit"
	// NDFormat: a neighbour solicitation with a wrong code, length or option.
	NDFormat Refusal = "nd-format"
	// AddressProbe: a question whether an address is free: ARP from 0.0.0.0 (RFC 5227) or a solicitation from
	// :: (RFC 4862 section 5.4).
	AddressProbe Refusal = "address-probe"
	// Gratuitous: an announcement of the sender's own address.
	Gratuitous Refusal = "gratuitous"
	// TargetAddress: a question for an address that no single node can have.
	TargetAddress Refusal = "target-address"
)

var refusals = []Refusal{
	Truncated, SourceMAC, DestinationMAC, TwoTags, EtherType,
	IPHeader, IPLength, IPChecksum, IPOptions, ExtensionHeaders, RoutingHeader,
	Fragment, Protocol, SourceAddress, DestinationAddress,
	UDPLength, UDPChecksum, TCPLength, TCPChecksum, Port,
	ARPFormat, ARPOperation, ICMPType, ICMPChecksum, HopLimit, NDFormat,
	AddressProbe, Gratuitous, TargetAddress,
}

// Refusals lists every reason, so that a metric can have all its labels from
// the start. The slice is the caller's.
func Refusals() []Refusal { return slices.Clone(refusals) }

// Error says that the frame was refused, and why.
func (r Refusal) Error() string { return "frame refused: " + string(r) }
