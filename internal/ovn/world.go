// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// world is all state of a Source but its snapshot: the rows of the databases, which of them
// are wanted, and which parts of the snapshot are dirty. Source.mu guards it.
type world struct {
	log   *logMutex
	local bool // Monitor is Local: only the networks that are wanted are read

	// databases are sb and nb, those that are configured. topology is the first of them.
	databases []*connection
	topology  topology
	// sb and nb are the rows, sbConn and nbConn the connections; nil unless configured.
	sb             *southbound
	nb             *northbound
	sbConn, nbConn *connection
	// follows is the generation of Southbound's conditions that the conditions of Northbound are for.
	follows uint64

	// chassis is the name of the local one, "" for none.
	chassis string
	// references are the networks that requests refer to.
	references references
	// logged is the occurrence of each reference as of the present snapshot.
	logged logged
	// interfaces are the ports that have an interface here, by the owner of
	// Source.SetPorts; plugged are all of them, sorted, and pluggedAt is since when.
	interfaces map[any]localPorts
	plugged    []string
	pluggedAt  map[string]time.Time
	warm       warm
	// unservedPorts are the ports that Source.Unserved asks for, by its owner.
	unservedPorts map[any][]string
	grace         grace
	components    components
	// scopeUsers counts the requests for Snapshot.RouterScope.
	scopeUsers int
	labels     labels
	// dnsServerUsers and gatewayUsers count the requests for Port.DNSServers and
	// Network.Gateways.
	dnsServerUsers, gatewayUsers int
	// forwardUsers counts the requests for Network.Forwards.
	forwardUsers int

	// dirty has the networks to be built anew; true: their ports as well.
	dirty map[origin.Network]bool
	// complete has the networks that all databases cover. A network stays complete
	// while it is wanted: a new port does not take it out of the snapshot until
	// Northbound has sent the row of that port.
	complete map[origin.Network]struct{}
	// coverageChanged is set when the databases may have come to cover other networks.
	coverageChanged bool
	// conditionsDirty is set when other rows may be wanted.
	conditionsDirty bool
	// builtFlows is the version of Southbound's flows that the snapshot has.
	builtFlows uint64
	// renamed are the names that other networks may have now than in the last snapshot.
	renamed map[string]struct{}

	bad badValues
	// builtProblems has the problems of the networks that build has made, until noteNetworks.
	builtProblems map[origin.Network]problems
}

func (w *world) init(local bool, log *logMutex) {
	*w = world{
		log: log, local: local,
		references: newReferences(), interfaces: make(map[any]localPorts), unservedPorts: make(map[any][]string),
		dirty: make(map[origin.Network]bool), complete: make(map[origin.Network]struct{}),
		renamed: make(map[string]struct{}), bad: newBadValues(),
		coverageChanged: true, conditionsDirty: true,
	}
}

// firstConditions are those of a table at the start: for all rows, or for none if setConditions
// is to ask for some.
func (w *world) firstConditions() []ovsdb.Condition {
	if w.local {
		return []ovsdb.Condition{}
	}
	return nil
}

// addDatabases creates the databases that are configured. Each one uses the other, so both
// have to exist before a client delivers rows.
func (w *world) addDatabases(southbound, northbound bool) {
	if southbound {
		w.sb = newSouthbound(w.firstConditions(), w.labelKeys)
		w.sbConn = newConnection(southboundName, &w.sb.contents)
		w.sb.isReadByName = func(port string) bool { return w.sbConn.latest.has(tablePort, portNamed(port)) }
		w.databases, w.topology = append(w.databases, w.sbConn), w.sb
	}
	if northbound {
		w.nb = newNorthbound(w.firstConditions(), w.labelKeys, w.sb == nil)
		w.nbConn = newConnection(northboundName, &w.nb.contents)
		if w.databases = append(w.databases, w.nbConn); w.topology == nil {
			w.topology = w.nb
		}
	}
}

// markDirty marks a network to be built anew.
func (w *world) markDirty(id origin.Network, withPorts bool) {
	w.dirty[id] = w.dirty[id] || withPorts
}

// markAllPorts marks all networks and their ports as dirty.
func (w *world) markAllPorts() {
	for id := range w.topology.networkIDs {
		w.markDirty(id, true)
	}
}

// isDirty reports whether a new snapshot may differ from the last.
func (w *world) isDirty() bool {
	return len(w.dirty) > 0 || w.coverageChanged || len(w.components.touched) > 0 || w.sb != nil && w.sb.flows.Version() != w.builtFlows
}

// setConditions asks the databases for the rows that are wanted now.
func (w *world) setConditions(now time.Time) {
	due := w.conditionsDue()
	if !w.conditionsDirty && (due.IsZero() || now.Before(due)) {
		return
	}
	w.conditionsDirty = false
	in := w.interestInputs()
	if w.sb != nil {
		w.sbConn.ask(southboundInterest(w.sb, in), now)
	}
	if w.nb == nil {
		return
	}
	var switches []ovsdb.UUID
	if w.sb != nil {
		switches = switchesOf(w.sb, w.sbConn.latest.conditions)
		if w.follows != w.sbConn.latest.gen {
			w.follows, w.nbConn.narrowAt = w.sbConn.latest.gen, now // what Southbound has given up goes here, too
		}
	}
	w.nbConn.ask(northboundInterest(w.nb, switches, in), now)
	if w.local {
		w.dropUnasked()
	}
}

func (w *world) interestInputs() *interestInputs {
	return &interestInputs{
		uses: w.uses(), references: &w.references,
		retained: w.grace.datapathKeys(), ports: w.portsByName(), plugged: w.plugged,
	}
}

// dropUnasked notes that the switches that Northbound is not asked for any more are not covered.
func (w *world) dropUnasked() {
	for id := range w.nb.switches.All() {
		_, complete := w.complete[origin.Network(id)]
		if complete && !w.nbConn.latest.has(tableSwitch, rowWithID(id)) {
			delete(w.complete, origin.Network(id))
			w.markDirty(origin.Network(id), true)
		}
	}
}

// conditionsDue is when conditions are narrowed, zero for never.
func (w *world) conditionsDue() (due time.Time) {
	for _, d := range w.databases {
		due = earlier(due, d.narrowAt)
	}
	return due
}

// uses returns what requests and the configuration need of the databases.
func (w *world) uses() uses {
	return uses{
		local: w.local, southbound: w.sb != nil, routerScopes: w.components.isUsed(), gateways: w.gatewayUsers > 0,
		routerNames: w.labels.routerUsers > 0, dnsServers: w.dnsServerUsers > 0, forwards: w.forwardUsers > 0,
	}
}

// covered returns what reports which rows have come.
func (w *world) covered() covered {
	c := covered{uses: w.uses(), sb: w.sb, nb: w.nb, networks: w.complete}
	if w.sb != nil {
		c.sbRows = &w.sbConn.monitor
	}
	if w.nb != nil {
		c.nbRows = &w.nbConn.monitor
	}
	return c
}

// isSettled reports whether nothing that the local chassis wants is outstanding.
func (w *world) isSettled() bool {
	switch {
	case w.sb != nil && !w.sb.located:
		return false
	case w.sb == nil && len(w.interfaces) == 0:
		return false
	case w.awaitsConfirmation():
		return false
	}
	return w.isAcknowledged()
}

// isAcknowledged reports whether the rows are all that is wanted.
func (w *world) isAcknowledged() bool {
	for _, d := range w.databases {
		if !d.hasAll() {
			return false
		}
	}
	return true
}

// dnsCount returns the sum of the databases.
func (w *world) dnsCount() (sum dnsCount) {
	for _, d := range w.databases {
		of := d.dnsCount
		sum.rows, sum.records = sum.rows+of.rows, sum.records+of.records
	}
	return sum
}

// takeChanges marks what follows from changes of rows.
func (w *world) takeChanges() {
	for i, d := range w.databases {
		c := d.changes.take()
		for id, p := range c.networks {
			w.markChanged(id, p)
		}
		for name := range c.names {
			w.markName(name)
		}
		for _, name := range c.released {
			w.grace.noteReleased(name)
		}
		if i == 0 { // the topology
			for node := range c.nodes {
				w.components.touch(node)
			}
			w.conditionsDirty = w.conditionsDirty || w.components.isUsed() && len(c.nodes) > 0
		}
		w.conditionsDirty = w.conditionsDirty || c.interest || c.chassis
		w.coverageChanged = w.coverageChanged || c.chassis
		for _, row := range c.badRows {
			w.noteProblems(row, c.problems[row])
		}
	}
}

// markChanged marks a network that has changed. What no request uses does not count.
func (w *world) markChanged(id origin.Network, p part) {
	if p&partRow != 0 {
		delete(w.complete, id) // another row is another set of conditions
	}
	withPorts := p&(partPorts|partRow) != 0 || p&partServers != 0 && w.dnsServerUsers > 0 ||
		p&partRouters != 0 && (w.uses().attachments() || w.forwardUsers > 0)
	if withPorts || p&partNames != 0 {
		w.markDirty(id, withPorts)
	}
}
