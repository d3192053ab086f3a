// SPDX-License-Identifier: Apache-2.0

// Package placement decides which flows a switch needs to punt the queries of its guests:
// in which tables, at which priorities and with which matches. It does not know what is
// installed (package flows), nor where guests and meters come from. Its functions are pure.
//
//	table of the pipeline              PrivateTable
//	┌──────────────────────────┐       ┌───────────────────────────────────────────┐
//	│ entry flows: for each    │       │ 20 probe frames         ─► packet-in      │
//	│ guest, address, protocol ├──────►│ 10 punt, with the lease ─► packet-in      │
//	└──────────────────────────┘       │    and onward, when the packet is resumed │
//	 the pipeline goes on   ◄──────────┤  0 onward, without a lease                │
//	                                   └───────────────────────────────────────────┘
//
// Without OVN a packet over IPv6 gets to PrivateTable by AddressTable, where its destination is
// looked at. Before Open vSwitch 3.5 a table with a match on an IPv6 address has the datapath
// need a flow for each address that anybody sends to (see [PlanLocal]).
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

// PrivateTable is the OpenFlow table that has flows of puntdns only, the punt among them.
// OVN uses tables up to 113. Neutron's agent uses tables up to 93, and deletes flows that
// are not its own there. OpenFlow ends at 254.
const PrivateTable = 200

// AddressTable is another such table. It has the entry flows that match an IPv6 address.
const AddressTable = 201

// Priorities in the private table and in AddressTable.
const (
	// PriorityOnward is that of the flows that send a packet to where it would go without us.
	PriorityOnward = 0
	// PriorityPunt is that of the punt, which matches everything and has the lease.
	PriorityPunt  = 10
	priorityProbe = 20 // above the punt, so that a probe works without a lease
	// priorityAddress is that of the entry flows in AddressTable.
	priorityAddress = 10
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
	// Pause is set if the switch holds a punted packet until it is answered or resumed.
	Pause bool
	// ControllerID says which connections get the packet-ins, UserData comes with them.
	ControllerID uint16
	UserData     []byte
	// Lease is the hard timeout of the punt in seconds; 0 is none.
	Lease uint16
	// Cookie is that of all flows.
	Cookie uint64
}

// Plan is the set of flows that a switch should have. They are to be installed in order:
// what comes first is harmless without what follows it.
type Plan struct {
	// Private are the flows of the private tables that are no guest's, but the punt.
	Private []openflow.FlowMod
	// Punt is the leased flow of the private table.
	Punt openflow.FlowMod
	// Entry are the flows that pick the guests' packets out of the pipeline, and those that
	// these lead to.
	Entry []openflow.FlowMod
}

// private builds the flows of the private table. Whatever an entry flow sends
// there is punted until the lease expires. After that, and when a paused packet is
// resumed, the packet goes on by the actions onward.
func (s *Service) private(onward ...openflow.Action) Plan {
	controller := openflow.Controller2{ControllerID: s.ControllerID, UserData: s.UserData}
	punt := controller
	punt.Pause = s.Pause
	actions := []openflow.Action{punt}
	if s.Pause {
		actions = append(actions, onward...)
	}
	return Plan{
		Private: []openflow.FlowMod{
			s.flow(PrivateTable, PriorityOnward, openflow.NewMatch(), onward...),
			s.flow(PrivateTable, priorityProbe, openflow.NewMatch(
				openflow.InPort(openflow.PortController), openflow.EthType(frame.EtherTypeProbe)), controller),
		},
		Punt: openflow.FlowMod{
			Command: openflow.Add, Table: PrivateTable, Priority: PriorityPunt,
			Cookie: s.Cookie, HardTimeout: s.Lease, Actions: actions,
		},
	}
}

func (s *Service) flow(table uint8, priority uint16, match openflow.Match, actions ...openflow.Action) openflow.FlowMod {
	return openflow.FlowMod{
		Command: openflow.Add, Table: table, Priority: priority,
		Cookie: s.Cookie, Match: match, Actions: actions,
	}
}

// toPrivate is the last action of a flow that has found a packet to punt.
var toPrivate = openflow.Resubmit{Table: PrivateTable}

// entries builds the entry flows of a guest, which matches asker: one with these actions for
// each of matches.
func (s *Service) entries(table uint8, priority uint16, asker []openflow.Field, matches [][]openflow.Field, actions ...openflow.Action) []openflow.FlowMod {
	var all []openflow.FlowMod
	for _, fields := range matches {
		match := openflow.NewMatch(append(asker[:len(asker):len(asker)], fields...)...)
		all = append(all, s.flow(table, priority, match, actions...))
	}
	return all
}

// rateLimit returns the action that drops packets of a guest by its meter, 0 for none. It
// has to be the first of a flow.
func rateLimit(meter uint32) []openflow.Action {
	if meter == 0 {
		return nil
	}
	return []openflow.Action{openflow.Meter{ID: meter}}
}
