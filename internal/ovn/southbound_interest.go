// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// uses says what requests and the configuration need of the databases.
type uses struct {
	// local is Monitor Local. Without it all rows are read, except meters, and routers beside Southbound.
	local bool
	// southbound is set if Southbound is read.
	southbound bool
	// Each of these is set while a request needs it, see Requests.
	routerScopes, gateways, routerNames, dnsServers, forwards bool
}

// attachments reports whether networks need to know the routers that they are attached to.
func (u uses) attachments() bool { return u.gateways || u.routerNames }

// interestInputs is all that decides which rows are wanted, except for the rows. It is read, never changed.
type interestInputs struct {
	uses
	references *references
	// retained has the tunnel key of the network by the guests that are retained without a binding. ports are
	// read from Southbound by their names: these guests, and the ports of Source.Unserved.
	retained map[string]uint32
	ports    []string
	// plugged are the ports that have an interface here, sorted.
	plugged []string
}

// southboundInterest returns the conditions for the rows that are wanted of Southbound: the local chassis and
// its ports, the networks of guests here and of requests, what routers join to these, and the meters of
// the DNS stage. Rows may make more rows wanted: a port its network, a network its ports.
func southboundInterest(s *southbound, in *interestInputs) conditions {
	want := make(conditions)
	askMeters(s, want)
	if !in.local {
		return want.sort()
	}
	nodes, peers := localDatapaths(s, in), []portRef(nil)
	var attached []attachment
	if in.attachments() {
		for _, node := range nodes {
			attached = append(attached, attachmentsOf(s, node)...)
		}
	}
	if in.routerScopes {
		nodes, peers = reach(s, nodes)
		want.ask(tablePort, localnets)
	}
	for _, a := range attached {
		if a.known && ovsdb.HasUUID(nodes, a.router) {
			continue
		}
		peers = append(peers, portRef{name: a.routerPort})
		if a.known && in.routerNames {
			want.ask(tableDatapath, rowWithID(a.router))
		}
	}
	askPorts(s, want, nodes, peers, in)
	askEach(want, tableDNS, nodes, func(id ovsdb.UUID) clause { return idIn("datapaths", id) })
	askEach(want, tableDatapath, nodes, rowWithID)
	for _, r := range in.references.sorted() {
		askNetwork(want, r)
	}
	for _, key := range in.retained {
		want.ask(tableDatapath, clause{Column: "tunnel_key", Number: int64(key)})
	}
	return want.sort()
}

// localDatapaths returns the datapaths of guests here, and of the networks that requests refer to, sorted.
// ovn-controller has the same term for them.
func localDatapaths(s *southbound, in *interestInputs) (all []ovsdb.UUID) {
	for _, p := range s.ports.All() {
		_, isRetained := in.retained[p.name]
		if isGuest(p.effectiveKind()) && (s.isHere(p) || isRetained) {
			all = append(all, p.datapath)
		}
	}
	for id, d := range s.datapaths.All() {
		if in.references.has(d.name, d.network) {
			all = append(all, id)
		}
	}
	return ovsdb.SortUUIDs(all)
}

// askPorts asks for the ports of datapaths, of this chassis, and for those with the names of peers or of
// interestInputs.ports.
//
// The function of each clause on a port is "==": then a server looks a row up in a hash table for each
// column. With a single clause of another function it tries all clauses for each row of the table when
// conditions change, and for each row that changes (ovsdb_condition_from_json in ovsdb/condition.c of Open
// vSwitch). So a port that migrates here is read only if this is its only additional_chassis. A port with
// several is read by the name of its interface: Unserved asks for it.
func askPorts(s *southbound, want conditions, datapaths []ovsdb.UUID, peers []portRef, in *interestInputs) {
	askEach(want, tablePort, datapaths, portsOfDatapath)
	if s.self != (ovsdb.UUID{}) {
		want.ask(tablePort, idIs("chassis", s.self), idIs("additional_chassis", s.self))
	}
	askEach(want, tablePort, in.ports, portNamed)
	askEach(want, tablePort, peers, func(p portRef) clause { return portNamed(p.name) })
}

// localnets is the clause for all localnet ports: Southbound is asked for them with router scopes only.
var localnets = textIs("type", kindLocalnet)

// portNamed is the clause for a row of Port_Binding by its name.
func portNamed(name string) clause { return textIs("logical_port", name) }

// portsOfDatapath is the clause for all rows of Port_Binding of a datapath. Where conditions have it, the
// datapath and its DNS rows are asked for as well.
func portsOfDatapath(id ovsdb.UUID) clause { return idIs("datapath", id) }

// askNetwork asks for the datapaths of a network that a request refers to. The UUID of a switch is in either
// of two columns, see datapath.
func askNetwork(want conditions, r SwitchRef) {
	if r.Name != "" {
		want.ask(tableDatapath, keyIs("external_ids", "name", r.Name))
		return
	}
	want.ask(tableDatapath, idIn("nb_uuid", ovsdb.UUID(r.ID)), keyIs("external_ids", "logical-switch", r.ID.String()))
}

// switchesOf returns the switches of the networks that conditions of Southbound ask for.
func switchesOf(s *southbound, asked conditions) (all []ovsdb.UUID) {
	for _, id := range asked.ids(tablePort, "datapath") {
		if d := s.datapaths.Get(id); d != nil && !d.network.IsZero() {
			all = append(all, ovsdb.UUID(d.network))
		}
	}
	return all
}

// askMeters asks for what flows of the DNS stage refer to.
func askMeters(s *southbound, want conditions) {
	want.ask(tableGroup)
	want.ask(tableMeter)
	want.ask(tableBand)
	for _, f := range s.flows.All() {
		if !f.isMetered() {
			continue
		}
		want.ask(tableMeter, textIs("name", f.meter))
		if f.group != (ovsdb.UUID{}) {
			want.ask(tableGroup, rowWithID(f.group))
		}
	}
	for _, m := range s.copp.meters.All() {
		askEach(want, tableBand, m.bands, rowWithID)
	}
}
