// SPDX-License-Identifier: Apache-2.0

// Package placement decides in which tables, at which priorities and with which
// matches the punt flows stand. Topology in, flows out: pure functions.
package placement

import (
	"net/netip"

	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Kind is the pipeline that the flows are placed in.
type Kind string

// OVN is the pipeline of ovn-controller.
const OVN Kind = "ovn"

// PrivateTable is the OpenFlow table that is ours alone, where the punt stands.
// OVN uses tables up to 113, Neutron's agent up to 93 and deletes what it does
// not know in those; OpenFlow ends at 254.
const PrivateTable = 200

// Priorities in the private table.
const (
	priorityOnward = 0 // to where the packet would go without us
	// PriorityPunt is that of the leased punt, which matches everything.
	PriorityPunt  = 10
	priorityProbe = 20 // above the punt, so that a probe works without a lease
)

// Service is what is punted, and how.
type Service struct {
	// Addresses are the resolver addresses; none means any.
	Addresses []netip.AddrPort
	// Neighbors has ARP and neighbour solicitations for Addresses punted too.
	Neighbors bool
	// Pause holds the packet in the switch until it is resumed.
	Pause bool
	// ControllerID and UserData are of the packet-ins.
	ControllerID uint16
	UserData     []byte
	// Lease is the hard timeout of the punt in seconds; 0 for good.
	Lease uint16
	// Cookie marks all flows.
	Cookie uint64
}

// Plan is the set of flows that should stand in the switch. They take effect in
// order: what comes first is harmless without what follows it.
type Plan struct {
	// Private are the flows of the private table but the punt.
	Private []openflow.FlowMod
	// Punt is the leased flow of the private table.
	Punt openflow.FlowMod
	// Entry are the flows that pick the guests' packets out of the pipeline.
	Entry []openflow.FlowMod
}

// private builds the flows of the private table. Whatever an entry flow sends
// there is punted while the lease lasts, and goes on by the actions onward when
// it has expired, and when a paused packet is resumed.
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
			s.flow(PrivateTable, priorityOnward, openflow.NewMatch(), onward...),
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

// entries are the flows that send what a guest asks to the private table, after
// the actions first: packets that match one of what, and who-has for the resolver
// addresses. Owned reports the addresses that are not ours to answer for.
func (s *Service) entries(table uint8, priority uint16, who []openflow.Field, what [][]openflow.Field, owned func(netip.Addr) bool, first ...openflow.Action) []openflow.FlowMod {
	var all []openflow.FlowMod
	actions := append(first, openflow.Resubmit{Table: PrivateTable})
	for _, fields := range append(what[:len(what):len(what)], s.neighbors(owned)...) {
		match := openflow.NewMatch(append(who[:len(who):len(who)], fields...)...)
		all = append(all, s.flow(table, priority, match, actions...))
	}
	return all
}

// limit is what has a guest's packets counted and dropped by a meter, 0 being
// none. A meter has to be a flow's first action.
func limit(meter uint32) []openflow.Action {
	if meter == 0 {
		return nil
	}
	return []openflow.Action{openflow.Meter{ID: meter}}
}
