// SPDX-License-Identifier: Apache-2.0

package frame

import "slices"

// Refusal is why a frame was not decoded, usable as a Prometheus label.
type Refusal string

// The reasons, from the outside of a frame to the inside.
const (
	// Truncated: the frame ends inside a fixed header.
	Truncated Refusal = "truncated"
	// SourceMAC: the address to answer is a group address.
	SourceMAC Refusal = "source-mac"
	// DestinationMAC: a group address cannot be the source of an answer.
	DestinationMAC Refusal = "destination-mac"
	// TwoTags: a second VLAN tag.
	TwoTags Refusal = "two-tags"
	// EtherType: not the decoder's, an IEEE 802.3 length, or a lone IEEE 802.1ad tag.
	EtherType Refusal = "ethertype"

	// IPHeader: a version against the EtherType, or an IPv4 header below 20 bytes.
	IPHeader Refusal = "ip-header"
	// IPLength: not the length of header or frame.
	IPLength Refusal = "ip-length"
	// IPChecksum: a wrong IPv4 header checksum.
	IPChecksum Refusal = "ip-checksum"
	// IPOptions: malformed, unknown and to be discarded (RFC 8200 section 4.2), or an IPv4 source route (RFC 7126
	// section 4.3).
	IPOptions Refusal = "ip-options"
	// ExtensionHeaders: truncated, misplaced, or too many.
	ExtensionHeaders Refusal = "extension-headers"
	// RoutingHeader: segments are left, so the destination is not final.
	RoutingHeader Refusal = "routing-header"
	// Fragment: never reassembled, as fragments of two tenants are indistinguishable.
	Fragment Refusal = "fragment"
	// Protocol: not the decoder's protocol.
	Protocol Refusal = "protocol"
	// SourceAddress: unspecified, loopback, multicast, broadcast, or IPv4-mapped.
	SourceAddress Refusal = "source-address"
	// DestinationAddress: as SourceAddress.
	DestinationAddress Refusal = "destination-address"

	// UDPLength: below 8, or above the IP packet.
	UDPLength Refusal = "udp-length"
	// UDPChecksum: a wrong checksum, or none in IPv6.
	UDPChecksum Refusal = "udp-checksum"
	// TCPLength: a header below 20 bytes or above the segment.
	TCPLength Refusal = "tcp-length"
	// TCPChecksum: a wrong checksum.
	TCPChecksum Refusal = "tcp-checksum"
	// Port: source or destination port 0.
	Port Refusal = "port"

	// ARPFormat: not ARP for IPv4 on Ethernet.
	ARPFormat Refusal = "arp-format"
	// ARPOperation: not an ARP request.
	ARPOperation Refusal = "arp-operation"
	// ICMPType: not a neighbour solicitation.
	ICMPType Refusal = "icmp-type"
	// ICMPChecksum: a wrong checksum.
	ICMPChecksum Refusal = "icmp-checksum"
	// HopLimit: a router has forwarded the solicitation.
	HopLimit Refusal = "hop-limit"
	// NDFormat: a wrong code, length or option.
	NDFormat Refusal = "nd-format"
	// AddressProbe: ARP from 0.0.0.0 (RFC 5227) or a solicitation from :: (RFC 4862 section 5.4).
	AddressProbe Refusal = "address-probe"
	// Gratuitous: the sender announces itself.
	Gratuitous Refusal = "gratuitous"
	// TargetAddress: no single node can have the address.
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

// Refusals returns a copy of all reasons.
func Refusals() []Refusal { return slices.Clone(refusals) }

// Error implements error.
func (r Refusal) Error() string { return "frame refused: " + string(r) }
