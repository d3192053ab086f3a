// SPDX-License-Identifier: Apache-2.0

// Package placement returns the flows that punt the queries of guests: tables, priorities and matches. Its functions
// are pure; package flows installs the flows.
//
//	table of the pipeline        PrivateTable                      PuntTable
//	┌───────────────────────┐    ┌─────────────────────────────┐   ┌─────────────────────────┐
//	│ entry flows: for each │    │ 20 probe frame ─► packet-in │   │ 10 punt of one guest,   │
//	│ guest, address and    ├───►│ 10 the leased flow          ├──►│    by its meter         ├─► packet-in
//	│ protocol              │    │  5 drop of a closed guest   │   │  0 punt of other guests │
//	│                       │    │  0 onward, without a lease  │   │                         │
//	└───────────────────────┘    └──────────────┬──────────────┘   └─────────────────────────┘
//	 the pipeline goes on   ◄────────────────────┘
//
// The punt action names the meter. Open vSwitch refuses a meter action whose meter is missing, and ovs-save(8) saves
// no meters. Restored flows therefore punt without a limit until puntdns has added its meters.
//
// Without OVN, IPv6 packets pass AddressTable. Before Open vSwitch 3.5 a match on an IPv6 address in the pipeline's
// table costs a datapath flow per destination (see Service.localEntries).
//
//	table of the pipeline              AddressTable
//	┌──────────────────────────┐       ┌───────────────────────────────────────────┐
//	│ entry flows: for each    │       │ 10 entry flows: for each guest,           │
//	│ guest, protocol, port    ├──────►│    address, protocol  ─► PrivateTable     │
//	└──────────────────────────┘       │                                           │
//	 the pipeline goes on   ◄──────────┤  0 onward, to another address             │
//	                                   └───────────────────────────────────────────┘
package placement

import (
	"net/netip"
	"slices"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Kind is the pipeline that the flows are placed in.
type Kind string

const (
	// OVN is the pipeline of ovn-controller.
	OVN Kind = "ovn"
	// Neutron is the pipeline of Neutron's Open vSwitch agent.
	Neutron Kind = "neutron"
	// Table is a table of any bridge.
	Table Kind = "table"
)

// Tables of puntdns alone. OVN uses tables up to 113; Neutron's agent up to 93, where it deletes foreign flows.
// OpenFlow ends at 254.
const (
	// PrivateTable has the leased flow.
	PrivateTable = 200
	// AddressTable has the entry flows that match an IPv6 address.
	AddressTable = 201
	// PuntTable has the punts.
	PuntTable = 202
	// 203 is EgressTable.
)

// Priorities in these tables.
const (
	// PriorityOnward is for flows that return a packet to the pipeline.
	PriorityOnward = 0
	priorityClosed = 5
	// PriorityLease is for the leased flow.
	PriorityLease   = 10
	priorityProbe   = 20 // so that a probe works without a lease
	priorityAddress = 10
	priorityPunt    = 10
)

// Service says which queries are punted, and how.
type Service struct {
	// Addresses are the resolver addresses of all guests.
	Addresses []netip.AddrPort
	// Hijack is set if every address is a resolver address; Addresses is empty then.
	Hijack bool
	// Neighbors is set if ARP requests and neighbour solicitations are punted.
	Neighbors bool
	// Resumable is set if a punted packet may be resumed, in the table of [ReadUserData].
	Resumable bool
	// ControllerID selects the connections that get the packet-ins.
	ControllerID uint16
	// Lease is the leased flow's hard timeout in seconds, 0 for none.
	Lease  uint16
	Cookie uint64
	// EgressBit is the bit of pkt_mark, 1 to 31, of packets to allowed destinations, 0 without egress policies. The
	// next lower bit is used too.
	EgressBit uint8
}

// Pipeline is where in a switch the flows are placed.
type Pipeline struct {
	Kind Kind
	// Table has the entry flows. With OVN it is the table of ls_in_dns_lookup (ovn-northd(8)), and entry flows are in
	// the table before.
	Table    uint8
	Priority uint16
	// EgressTable is the table of ls_in_pre_stateful, 0 if unknown or without OVN.
	EgressTable uint8
}

// Guest has what a guest's flows depend on, except its meter. Guests may share slices.
type Guest struct {
	Key
	// Addresses are resolver addresses of this guest, none of which is in Service.Addresses.
	Addresses []netip.AddrPort
	// Left are addresses of Service.Addresses that a workload of the guest's network has; queries to them are not
	// punted.
	Left []netip.Addr
	// Owned are resolver addresses that a port of the guest's network has; their ARP requests and neighbour
	// solicitations are not punted.
	Owned []netip.Addr
	// Closed is set if the switch drops the guest's packets while there is no lease.
	Closed bool
	// Egress is what the guest's egress policies allow, nil without a policy.
	Egress opening.Policy
	// Arriving is set while a guest with a policy migrates to this node.
	Arriving bool
}

// Equal reports whether two guests have the same flows, except for meters.
func (g *Guest) Equal(o *Guest) bool {
	return g.Key == o.Key && g.Closed == o.Closed && g.Egress == o.Egress && g.Arriving == o.Arriving && slices.Equal(g.Addresses, o.Addresses) && slices.Equal(g.Left, o.Left) && slices.Equal(g.Owned, o.Owned)
}

// Private returns the flows that serve all guests, and the leased flow. Install them in this order, before guests'
// flows: each flow leads only to earlier ones.
func (s *Service) Private(at Pipeline) (flows []openflow.FlowMod, lease openflow.FlowMod) {
	flows = []openflow.FlowMod{
		s.flow(PuntTable, PriorityOnward, openflow.NewMatch(), s.punt(0, at.Table)),
		s.flow(PrivateTable, PriorityOnward, openflow.NewMatch(), openflow.Resubmit{Table: at.Table}),
		s.flow(PrivateTable, priorityProbe, openflow.NewMatch(
			openflow.InPort(openflow.PortController), openflow.EthType(frame.EtherTypeProbe)),
			openflow.Controller2{ControllerID: s.ControllerID, UserData: appendUserData(nil, Nowhere)}),
	}
	if at.Kind != OVN {
		flows = append(flows, s.flow(AddressTable, PriorityOnward, openflow.NewMatch(), openflow.Resubmit{Table: at.Table}))
	}
	return flows, openflow.FlowMod{
		Command: openflow.Add, Table: PrivateTable, Priority: PriorityLease,
		Cookie: s.Cookie, HardTimeout: s.Lease, Actions: []openflow.Action{openflow.Resubmit{Table: PuntTable}},
	}
}

// OfGuest returns a guest's flows in order of installation. With meter 0 the common punt serves the guest; otherwise
// the first flow punts within its limit.
func (s *Service) OfGuest(at Pipeline, g *Guest, meter uint32) (flows []openflow.FlowMod) {
	if meter != 0 {
		flows = append(flows, s.flow(PuntTable, priorityPunt, openflow.NewMatch(g.match(at.Kind)...), s.punt(meter, at.Table)))
	}
	if g.Closed {
		flows = append(flows, s.flow(PrivateTable, priorityClosed, openflow.NewMatch(g.match(at.Kind)...)))
	}
	if at.Kind == OVN {
		return slices.Concat(flows, s.egressFlows(at, g), s.ovnEntries(at, g))
	}
	return append(flows, s.localEntries(at, g)...)
}

func (s *Service) punt(meter uint32, onward uint8) openflow.Action {
	to := Nowhere
	if s.Resumable {
		to = Onward(onward)
	}
	return openflow.Controller2{ControllerID: s.ControllerID, UserData: appendUserData(nil, to), Meter: meter}
}

func (s *Service) without(left []netip.Addr) *Service {
	if len(left) == 0 {
		return s
	}
	of := *s
	of.Addresses = slices.DeleteFunc(slices.Clone(s.Addresses), func(a netip.AddrPort) bool { return slices.Contains(left, a.Addr()) })
	return &of
}

func (s *Service) flow(table uint8, priority uint16, match openflow.Match, actions ...openflow.Action) openflow.FlowMod {
	return openflow.FlowMod{
		Command: openflow.Add, Table: table, Priority: priority,
		Cookie: s.Cookie, Match: match, Actions: actions,
	}
}

var toPrivate = openflow.Resubmit{Table: PrivateTable}

func (s *Service) entries(table uint8, priority uint16, sender []openflow.Field, matches [][]openflow.Field, actions ...openflow.Action) []openflow.FlowMod {
	var all []openflow.FlowMod
	for _, fields := range matches {
		match := openflow.NewMatch(append(sender[:len(sender):len(sender)], fields...)...)
		all = append(all, s.flow(table, priority, match, actions...))
	}
	return all
}
