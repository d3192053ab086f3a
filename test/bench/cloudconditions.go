// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
)

// controllerRelease is a way in which ovn-controller makes its conditions.
type controllerRelease uint8

const (
	// newestController is that of OVN 26.03, whose conditions follow fewest changes.
	newestController controllerRelease = iota
	// controller2303 is that of OVN 23.03.
	controller2303
)

var controllerReleases = map[string]controllerRelease{"newest": newestController, "23.03": controller2303}

// controllerState is what ovn-controller makes its conditions of.
type controllerState struct {
	layout  *cloudLayout
	release controllerRelease
	node    int
	// interfaces are the ports that have an interface here: local_lports of en_runtime_data, as
	// binding_handle_ovs_interface_changes of controller/binding.c keeps it.
	interfaces []int
	// unseen has those whose row has not come yet. Others are bound: consider_iface_claim claims
	// a port as soon as it has the row.
	unseen map[int]bool
	// switches and routers (by tenant) are the local datapaths, and known is the same as a set.
	// add_local_datapath of controller/local_data.c adds that of a claimed port and all that are
	// joined to it. A release takes none away: only a recompute of en_runtime_data does, and one
	// is not part of the churn.
	switches, routers []int
	known             map[int]bool
}

// newControllerState is that of a node that has bound its ports.
func newControllerState(l *cloudLayout, release controllerRelease, node int) *controllerState {
	s := &controllerState{layout: l, release: release, node: node, unseen: make(map[int]bool), known: make(map[int]bool)}
	for _, p := range l.at[node] {
		s.interfaces = append(s.interfaces, p)
		s.bind(p)
	}
	return s
}

// forget makes it that of a process that has just started: it has interfaces and no rows.
func (s *controllerState) forget() {
	for _, p := range s.interfaces {
		s.unseen[p] = true
	}
	s.switches, s.routers, s.known = nil, nil, make(map[int]bool)
}

// bind makes the datapath of a port local, and those that a router joins to it.
func (s *controllerState) bind(port int) {
	l := s.layout
	sw := l.switchOf(port)
	if s.known[sw] {
		return
	}
	t := l.tenantOf(sw)
	if !l.hasRouter(t) {
		s.known[sw] = true
		s.switches = append(s.switches, sw)
		return
	}
	s.routers = append(s.routers, t)
	for i := range cloudTenantSwitches {
		s.known[t*cloudTenantSwitches+i] = true
		s.switches = append(s.switches, t*cloudTenantSwitches+i)
	}
}

// plug adds an interface. The row of a port on a local datapath is there already.
func (s *controllerState) plug(port int) {
	s.interfaces = append(s.interfaces, port)
	if !s.known[s.layout.switchOf(port)] {
		s.unseen[port] = true
	}
}

func (s *controllerState) unplug(port int) {
	s.interfaces = slices.DeleteFunc(s.interfaces, func(p int) bool { return p == port })
	delete(s.unseen, port)
}

// answered takes in the rows of the ports that a request has asked for. It reports whether any has come.
func (s *controllerState) answered() bool {
	came := len(s.unseen) > 0
	for _, p := range s.interfaces { // in an order that is always the same
		if s.unseen[p] {
			s.bind(p)
		}
	}
	clear(s.unseen)
	return came
}

// conditionTables are the tables that have conditions. A condition without a clause is for no row.
func (r controllerRelease) conditionTables() []string {
	all := []string{"Port_Binding", "Logical_Flow", "MAC_Binding", "Multicast_Group", "DNS", "Controller_Event", "IP_Multicast", "IGMP_Group",
		"Chassis_Private", "Chassis_Template_Var"}
	if r == newestController {
		all = append(all, "FDB", "ECMP_Nexthop", "Advertised_Route", "Advertised_MAC_Binding") // 23.03 asks for all rows of FDB
	}
	return all
}

// complete adds the conditions without a clause.
func (r controllerRelease) complete(where map[string][]any) map[string][]any {
	for _, table := range r.conditionTables() {
		if len(where[table]) == 0 {
			where[table] = []any{false}
		}
	}
	return where
}

// firstConditions are those that main of controller/ovn-controller.c begins with, before it knows
// its chassis: update_sb_monitors without one, and without interfaces.
func (r controllerRelease) firstConditions() map[string][]any {
	pb := []any{clauseOf("type", "==", "patch"), clauseOf("type", "==", "chassisredirect"), clauseOf("type", "==", "external")}
	where := map[string][]any{"Port_Binding": pb, "Chassis_Private": {true}}
	if r == newestController {
		where["Port_Binding"] = append(pb, clauseOf("type", "==", "l2gateway"), clauseOf("type", "==", "l3gateway"))
		where["Advertised_Route"], where["Advertised_MAC_Binding"] = []any{true}, []any{true}
	}
	return r.complete(where)
}

// conditions are those that update_sb_monitors of controller/ovn-controller.c makes in a run of the main
// loop, after en_runtime_data. Tables and columns that a schema does not have are left out later.
func (s *controllerState) conditions() map[string][]any {
	chassis := ref(kChassis, s.node)
	name := cloudNode(s.node)
	none := []any{"set", []any{}}
	where := map[string][]any{}
	pb := []any{
		clauseOf("type", "==", "patch"), clauseOf("type", "==", "chassisredirect"), clauseOf("type", "==", "external"),
		clauseOf("chassis", "==", chassis), clauseOf("requested_chassis", "==", chassis),
		clauseOf("options", "includes", ovsMap([2]string{"l2gateway-chassis", name})),
		clauseOf("options", "includes", ovsMap([2]string{"l3gateway-chassis", name})),
	}
	pb = append(pb, s.interfaceClauses()...)
	byDatapath := []string{"MAC_Binding", "Multicast_Group", "IP_Multicast"}
	if s.release == newestController {
		byDatapath = append(byDatapath, "ECMP_Nexthop", "Advertised_Route", "Advertised_MAC_Binding")
	}
	var flows, dns []any
	add := func(id []string, key int) {
		pb, flows = append(pb, clauseOf("datapath", "==", id)), append(flows, clauseOf("logical_datapath", "==", id))
		for _, table := range byDatapath {
			where[table] = append(where[table], clauseOf("datapath", "==", id))
		}
		dns = append(dns, clauseOf("datapaths", "includes", []any{"set", []any{id}}))
		if s.release == newestController {
			where["FDB"] = append(where["FDB"], clauseOf("dp_key", "==", key))
		}
	}
	for _, sw := range s.switches {
		add(ref(kSwitch, sw), sw+1)
	}
	for _, t := range s.routers {
		add(ref(kRouter, t), s.layout.switches+t+1)
	}
	where["Logical_Flow"] = append(flows, clauseOf("logical_dp_group", "!=", none))
	where["Port_Binding"], where["DNS"] = pb, dns
	where["Controller_Event"] = []any{clauseOf("chassis", "==", chassis)}
	where["IGMP_Group"] = []any{clauseOf("chassis", "==", chassis)}
	where["Chassis_Private"] = []any{clauseOf("name", "==", name)}
	where["Chassis_Template_Var"] = []any{clauseOf("chassis", "==", name)}
	return s.release.complete(where)
}

// interfaceClauses are those of Port_Binding that ask for the ports of interfaces. 23.03 has two for
// each of them. From 23.09 on there is one for a port whose row has not come yet, and one for all that
// have a parent. That 26.03 has it for a port too that is not bound here makes no difference: the
// main loop claims a port before it makes the conditions.
func (s *controllerState) interfaceClauses() (all []any) {
	for _, p := range s.interfaces {
		if s.release == controller2303 || s.unseen[p] {
			all = append(all, clauseOf("logical_port", "==", cloudPort(p)))
		}
		if s.release == controller2303 {
			all = append(all, clauseOf("parent_port", "==", cloudPort(p)))
		}
	}
	if s.release == newestController {
		all = append(all, clauseOf("parent_port", "!=", []any{"set", []any{}}))
	}
	return all
}

// setController sets the release to that of a name.
func (e *extent) setController(name string) error {
	release, ok := controllerReleases[name]
	if !ok {
		return fmt.Errorf("%q: expected newest or 23.03", name)
	}
	e.cloudController = release
	return nil
}
