// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"net/netip"
	"strings"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Egress needs OVN: the operator's ACL drops what a guest with a policy sends unless a bit of pkt_mark is set. These
// flows set the bit, before connection tracking, load balancers and ACLs:
//
//	table of ls_in_pre_stateful               EgressTable
//	┌─────────────────────────────────┐       ┌────────────────────────────────────────────────┐
//	│ 1000 each guest with a policy:  ├──────►│ 20 networks of the policy       ─► set the bit │
//	│      look at the whole address, │       │ 10 destinations by answers      ─► set the bit │
//	│      set the guard bit, clear   │       │  5 adopted connections          ─► set the bit │
//	│      the bit,                   │       │  3 a guest that arrives         ─► adopt       │
//	│                                 │       │    no flow: nothing, and back                  │
//	│      ... and this table again:  │◄──────┤                                                │
//	│ 1000 fragments without the bit: │       └────────────────────────────────────────────────┘
//	│      drop                       │
//	└─────────────────────────────────┘
//
// The guest's flow moves the destination address onto itself, so that a datapath cache entry covers one address.
// Otherwise a cached drop would cover neighbours, and outlast an answer that opens a neighbour.
//
// TCP connections of a guest that arrives by live migration have no opening. For a time, a segment without SYN makes
// the switch learn a flow for its connection, which ends when idle.
//
// The switch drops fragments to addresses that are not open before connection tracking. The userspace datapath of Open
// vSwitch 3.1.0 may forward incomplete fragments past the ACLs, with a later packet.
//
// Security: a guest on an internal port chooses its packets' mark (SO_MARK in socket(7)); the kernel keeps the mark
// across network namespaces. So the table before clears both bits of packets with the guard bit.

const (
	// EgressTable has the flows that set the bit.
	EgressTable = 203
	// priorityEgress is above OVN's flows there, which end at 120.
	priorityEgress = 1000
	// Priorities in EgressTable. They differ so that a network of one address and its opening are two flows.
	priorityNetwork    = 20
	priorityOpening    = 10
	priorityConnection = 5
	priorityArrival    = 3
	arrivalTimeout     = 30
	// tcpSYN begins a connection (RFC 9293, 3.1).
	tcpSYN = 2
)

func (s *Service) egressBits() (bit, guard uint32) {
	bit = uint32(1) << s.EgressBit
	return bit, bit >> 1
}

func (s *Service) egressFlows(at Pipeline, g *Guest) (flows []openflow.FlowMod) {
	if g.Egress == nil || !s.HasEgress(at) {
		return nil
	}
	for _, n := range g.Egress.Networks() {
		flows = append(flows, s.opens(priorityNetwork, g.Key, prefixFields(n.Prefix, n.Protocol, n.Port)))
	}
	bit, guard := s.egressBits()
	forged := openflow.NewMatch(append(g.match(OVN), openflow.PktMarkMasked(guard, guard))...)
	flows = append(flows, s.flow(at.EgressTable-1, priorityEgress, forged,
		openflow.SetField{Field: openflow.PktMarkMasked(0, bit|guard)}, openflow.Resubmit{Table: at.EgressTable - 1}))
	for _, family := range []struct {
		ethernet    uint16
		destination openflow.Field
		bits        uint16
	}{
		{ethIPv4, openflow.IPv4Dst(netip.IPv4Unspecified()), 32},
		{ethIPv6, openflow.IPv6Dst(netip.IPv6Unspecified()), 128},
	} {
		match := openflow.NewMatch(append(g.match(OVN), openflow.EthType(family.ethernet), openflow.PktMarkMasked(0, guard))...)
		flows = append(flows, s.flow(at.EgressTable, priorityEgress, match,
			openflow.Move{Src: family.destination, Dst: family.destination, Bits: family.bits},
			openflow.SetField{Field: openflow.PktMarkMasked(guard, bit|guard)},
			openflow.Resubmit{Table: EgressTable}, openflow.Resubmit{Table: at.EgressTable}))
		fragment := openflow.NewMatch(append(g.match(OVN), openflow.EthType(family.ethernet), openflow.Fragment(), openflow.PktMarkMasked(guard, bit|guard))...)
		flows = append(flows, s.flow(at.EgressTable, priorityEgress, fragment))
	}
	return flows
}

// HasEgress reports whether the pipeline can have egress flows.
func (s *Service) HasEgress(at Pipeline) bool {
	return at.Kind == OVN && s.EgressBit != 0 && at.EgressTable != 0
}

func (s *Service) opens(priority uint16, guest Key, to []openflow.Field) openflow.FlowMod {
	bit, _ := s.egressBits()
	return s.flow(EgressTable, priority, openflow.NewMatch(append(guest.match(OVN), to...)...), openflow.SetField{Field: openflow.PktMarkMasked(bit, bit)})
}

// Arrival returns flows by which the switch adopts connections of a guest, for arrivalTimeout (in seconds) after each
// change of the flows. Learned flows have s.Cookie too. There are at most most, and each ends after idle seconds
// without a packet.
func (s *Service) Arrival(guest Key, most int, idle uint16) (flows []openflow.FlowMod) {
	bit, _ := s.egressBits()
	set := openflow.PktMarkMasked(bit, bit)
	for _, family := range []struct {
		ethernet  uint16
		addresses []openflow.Field
	}{
		{ethIPv4, []openflow.Field{openflow.IPv4Src(netip.IPv4Unspecified()), openflow.IPv4Dst(netip.IPv4Unspecified())}},
		{ethIPv6, []openflow.Field{openflow.IPv6Src(netip.IPv6Unspecified()), openflow.IPv6Dst(netip.IPv6Unspecified())}},
	} {
		match := openflow.NewMatch(append(guest.match(OVN), openflow.EthType(family.ethernet), openflow.IPProto(ProtoTCP), openflow.TCPFlags(0, tcpSYN))...)
		f := s.flow(EgressTable, priorityArrival, match, openflow.SetField{Field: set}, openflow.Learn{
			Table: EgressTable, Priority: priorityConnection, IdleTimeout: idle, Cookie: s.Cookie, Limit: uint32(most),
			Match: match.Fields(), Same: append(family.addresses, openflow.TCPSrc(0), openflow.TCPDst(0)), Set: set,
		})
		f.HardTimeout = arrivalTimeout
		flows = append(flows, f)
	}
	return flows
}

// Opening is a destination that an answer has opened for a guest. It is comparable.
type Opening struct {
	Guest Key
	To    opening.Destination
}

// Compare orders openings by guest and destination.
func (o Opening) Compare(p Opening) int {
	return cmp.Or(o.Guest.Compare(p.Guest), o.To.Compare(p.To))
}

// MatchOpenings matches openings of a guest; without a MAC, also of the port's guests that have a MAC.
func MatchOpenings(guest Key) openflow.Match { return openflow.NewMatch(guest.match(OVN)...) }

// Flow returns the flow of an opening, which ends after idle seconds without a packet. Later processes read the names
// from it.
func (s *Service) Flow(o *Opening, names []string, idle uint16) openflow.FlowMod {
	f := s.opens(priorityOpening, o.Guest, prefixFields(netip.PrefixFrom(o.To.Address, o.To.Address.BitLen()), o.To.Protocol, o.To.Port))
	f.IdleTimeout = idle
	f.Actions = append(f.Actions, openflow.Note{Text: strings.Join(names, noteSeparator)})
	return f
}

// IsEgress reports whether a flow of a plan is for egress.
func IsEgress(f *openflow.FlowMod) bool {
	role, _ := read(f)
	return role.isEgress()
}

// ReadOpening returns the opening of a flow, if the flow is one.
func ReadOpening(table uint8, priority uint16, m openflow.Match) (o Opening, ok bool) {
	if table != EgressTable || priority != priorityOpening {
		return o, false
	}
	o.Guest, ok = readKey(OVN, m)
	if !ok {
		return o, false
	}
	o.To.Address, ok = m.Destination()
	protocol, _ := m.Value(openflow.IPProto(0))
	o.To.Protocol = uint8(protocol)
	for _, port := range portFields {
		if n, has := m.Value(port(0)); has {
			o.To.Port = uint16(n)
		}
	}
	return o, ok
}

// NamesOf reads the names of an opening from the instructions of its flow, nil for other flows.
func NamesOf(instructions []byte) []string {
	text, _ := openflow.NoteOf(instructions)
	if text == "" {
		return nil
	}
	return strings.Split(text, noteSeparator)
}

// noteSeparator can't occur in a name in presentation form.
const noteSeparator = "\n"

var portFields = map[uint8]func(uint16) openflow.Field{
	ProtoTCP: openflow.TCPDst, ProtoUDP: openflow.UDPDst, ProtoSCTP: openflow.SCTPDst,
}

func prefixFields(p netip.Prefix, protocol uint8, port uint16) []openflow.Field {
	fields := []openflow.Field{openflow.EthType(ethIPv6), openflow.IPv6DstPrefix(p)}
	if p.Addr().Is4() {
		fields = []openflow.Field{openflow.EthType(ethIPv4), openflow.IPv4DstPrefix(p)}
	}
	if protocol == 0 {
		return fields
	}
	fields = append(fields, openflow.IPProto(protocol))
	if of := portFields[protocol]; of != nil && port != 0 {
		fields = append(fields, of(port))
	}
	return fields
}
