// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"net/netip"
	"slices"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

const (
	ethIPv4, ethARP, ethIPv6 = 0x0800, 0x0806, 0x86dd
	protoICMPv6              = 58
	arpRequest               = 1
	neighborSolicitation     = 135
)

// DNSPort is the default port of a resolver address (RFC 1035, section 4.2).
const DNSPort = 53

// IP protocols of queries.
const (
	ProtoTCP = 6
	ProtoUDP = 17
)

// ProtoSCTP is the IP protocol SCTP.
const ProtoSCTP = 132

// queries omits the sender. Fragments never match: Open vSwitch zeroes their ports. Hijack mode matches no TCP: a
// segment belongs to a connection with another server.
func (s *Service) queries() [][]openflow.Field {
	if s.Hijack {
		return [][]openflow.Field{
			{openflow.EthType(ethIPv4), openflow.IPProto(ProtoUDP), openflow.UDPDst(DNSPort)},
			{openflow.EthType(ethIPv6), openflow.IPProto(ProtoUDP), openflow.UDPDst(DNSPort)},
		}
	}
	return queriesTo(s.Addresses)
}

func queriesTo(addresses []netip.AddrPort) [][]openflow.Field {
	var all [][]openflow.Field
	for _, a := range addresses {
		to := []openflow.Field{openflow.EthType(ethIPv6), openflow.IPv6Dst(a.Addr())}
		if a.Addr().Is4() {
			to = []openflow.Field{openflow.EthType(ethIPv4), openflow.IPv4Dst(a.Addr())}
		}
		all = append(all,
			append(to[:2:2], openflow.IPProto(ProtoUDP), openflow.UDPDst(a.Port())),
			append(to[:2:2], openflow.IPProto(ProtoTCP), openflow.TCPDst(a.Port())))
	}
	return all
}

// NeighborAddresses returns a guest's resolver addresses whose ARP requests and neighbour solicitations are punted:
// all that no port of its network has.
func (s *Service) NeighborAddresses(g *Guest) (all []netip.Addr) {
	if !s.Neighbors {
		return nil
	}
	for _, a := range slices.Concat(s.Addresses, g.Addresses) {
		if ip := a.Addr(); !slices.Contains(all, ip) && !slices.Contains(g.Owned, ip) {
			all = append(all, ip)
		}
	}
	return all
}

func (s *Service) neighbors(g *Guest) [][]openflow.Field {
	var all [][]openflow.Field
	for _, ip := range s.NeighborAddresses(g) {
		if ip.Is4() {
			all = append(all, []openflow.Field{openflow.EthType(ethARP), openflow.ARPOp(arpRequest), openflow.ARPTPA(ip)})
		} else {
			all = append(all, []openflow.Field{openflow.EthType(ethIPv6), openflow.IPProto(protoICMPv6), openflow.ICMPv6Type(neighborSolicitation), openflow.NDTarget(ip)})
		}
	}
	return all
}
