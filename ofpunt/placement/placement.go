// SPDX-License-Identifier: Apache-2.0

// Package placement decides which flows a switch needs to punt the queries of its guests:
// in which tables, at which priorities and with which matches. Package flows knows which flows are
// installed. The functions of this package are pure.
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
// The meter is a parameter of the action that punts. With a meter action the switch could not be
// restored: Open vSwitch refuses such a flow if it lacks the meter, and ovs-save(8) saves flows
// without meters. Restored flows punt without a limit until this process has added its meters.
//
// Without OVN a packet over IPv6 gets to PrivateTable by AddressTable, where its destination is
// looked at. Before Open vSwitch 3.5 a table with a match on an IPv6 address has the datapath
// need a flow for each address that anybody sends to (see Service.localEntries).
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

// Tables that have flows of puntdns only. OVN uses tables up to 113. Neutron's agent uses tables
// up to 93, and deletes flows that are not its own there. OpenFlow ends at 254.
const (
	// PrivateTable has the leased flow. Entry flows lead to it.
	PrivateTable = 200
	// AddressTable has the entry flows that match an IPv6 address.
	AddressTable = 201
	// PuntTable has the punts. The leased flow leads to it.
	PuntTable = 202
)

// Priorities in these tables.
const (
	// PriorityOnward is of the flows that send a packet to where it would go without puntdns.
	PriorityOnward = 0
	// priorityClosed is of the flows that drop the packets of closed guests while there is no lease.
	priorityClosed = 5
	// PriorityLease is of the leased flow, which matches everything.
	PriorityLease   = 10
	priorityProbe   = 20 // above the leased flow, so that a probe works without a lease
	priorityAddress = 10 // of the entry flows in AddressTable
	priorityPunt    = 10 // of the punt of one guest
)

// Service says which queries are punted, and how.
type Service struct {
	// Addresses are the resolver addresses that all guests have.
	Addresses []netip.AddrPort
	// Hijack is set if every address is one: then there are no others.
	Hijack bool
	// Neighbors is set if ARP requests and neighbour solicitations for Addresses are
	// punted too.
	Neighbors bool
	// Resumable is set if a punted packet may be resumed: [ReadUserData] says in which table.
	Resumable bool
	// ControllerID selects the connections that get the packet-ins.
	ControllerID uint16
	// Lease is the hard timeout of the leased flow in seconds; 0 for no timeout.
	Lease uint16
	// Cookie is the cookie of all flows.
	Cookie uint64
}

// Pipeline is where in a switch the flows are placed.
type Pipeline struct {
	Kind Kind
	// Table has the entry flows. With OVN it is the table of the stage ls_in_dns_lookup (ovn-northd(8)):
	// the entry flows are in the table before it, and onward leads to it.
	Table uint8
	// Priority is the priority of the entry flows; unused with OVN.
	Priority uint16
}

// Guest is what the flows of one guest depend on, beside its meter.
type Guest struct {
	Key
	// Addresses are resolver addresses of this guest, none of which is in Service.Addresses. Guests may
	// share the slice.
	Addresses []netip.AddrPort
	// Left are addresses of Service.Addresses that a workload of the guest's network has. What the guest
	// sends there is not punted. Guests may share the slice.
	Left []netip.Addr
	// Owned are resolver addresses, of this guest and of all guests, that a port of the guest's network has:
	// ARP requests and neighbour solicitations for them are not punted.
	Owned []netip.Addr
	// Closed is set if the switch drops the packets of the guest while there is no lease. The packets of
	// other guests go on to where they would go without puntdns.
	Closed bool
}

// Equal reports whether two guests have the same flows, except for their meters.
func (g *Guest) Equal(o *Guest) bool {
	return g.Key == o.Key && g.Closed == o.Closed && slices.Equal(g.Addresses, o.Addresses) && slices.Equal(g.Left, o.Left) && slices.Equal(g.Owned, o.Owned)
}

// Private returns the flows that no guest has a part in, and the leased flow apart. Install them before the
// flows of guests: a flow is harmless without the flows after it. A packet
// that an entry flow matches is punted while the lease lasts; without a lease it goes on in the table of
// the pipeline. The flow back from AddressTable is there even if no flow leads to AddressTable, so that the
// private flows do not depend on the guests.
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

// OfGuest returns the flows of a guest in the order in which to install them. With a meter the
// first one punts within that limit; 0 is no meter, and then the punt of all guests serves this one.
func (s *Service) OfGuest(at Pipeline, g *Guest, meter uint32) (flows []openflow.FlowMod) {
	if meter != 0 {
		flows = append(flows, s.flow(PuntTable, priorityPunt, openflow.NewMatch(g.match(at.Kind)...), s.punt(meter, at.Table)))
	}
	if g.Closed {
		flows = append(flows, s.flow(PrivateTable, priorityClosed, openflow.NewMatch(g.match(at.Kind)...)))
	}
	if at.Kind == OVN {
		return append(flows, s.ovnEntries(at, g)...)
	}
	return append(flows, s.localEntries(at, g)...)
}

// punt returns the action that punts a packet unless the meter drops it; 0 is no meter.
func (s *Service) punt(meter uint32, onward uint8) openflow.Action {
	to := Nowhere
	if s.Resumable {
		to = Onward(onward)
	}
	return openflow.Controller2{ControllerID: s.ControllerID, UserData: appendUserData(nil, to), Meter: meter}
}

// without returns s without the resolver addresses in left.
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

// toPrivate is the last action of a flow that has found a packet to punt.
var toPrivate = openflow.Resubmit{Table: PrivateTable}

// entries returns the entry flows of a guest whose packets sender matches: one with these actions for
// each of matches.
func (s *Service) entries(table uint8, priority uint16, sender []openflow.Field, matches [][]openflow.Field, actions ...openflow.Action) []openflow.FlowMod {
	var all []openflow.FlowMod
	for _, fields := range matches {
		match := openflow.NewMatch(append(sender[:len(sender):len(sender)], fields...)...)
		all = append(all, s.flow(table, priority, match, actions...))
	}
	return all
}
