// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// world is the rows of the databases, what of them is wanted, and what of the snapshot
// they have made dirty. Source.mu guards it.
type world struct {
	log   Logger
	local bool // Monitor is Local: only the networks that are wanted are read

	// databases are sb and nb, those that are configured. topology is the first of them.
	databases []database
	topology  topology
	sb        *southbound // nil unless configured
	nb        *northbound // nil unless configured

	// chassis is the name of the local one, "" for none.
	chassis string
	// wantedNames are the networks wanted by name, with how many want them.
	wantedNames map[string]int
	// missingNames are those of them that the log was told of: no network has them.
	missingNames map[string]struct{}
	// interfaces are the ports that have an interface here, by who has called
	// Source.SetPorts; plugged are all of them, sorted.
	interfaces map[any]localPorts
	plugged    []string
	// reported are the ports that Source.Unserved asks for, by who has called it.
	reported map[any][]string
	grace    grace
	groups   groups

	// dirty has the networks to be built anew; true: their ports as well.
	dirty map[origin.Network]bool
	// complete has the networks that all databases cover. One that is stays so
	// while it is wanted: a new port of it does not take it away for the moment
	// that Northbound needs to tell of that port.
	complete map[origin.Network]struct{}
	// coverageChanged is set when the databases may have come to cover other networks.
	coverageChanged bool
	// conditionsDirty is set when other rows may be wanted.
	conditionsDirty bool
	// stageDirty is set when the place of OVN's own DNS may have changed.
	stageDirty bool
	// networksNamed has the networks of the snapshot by name, sorted.
	networksNamed map[string][]origin.Network

	// reports are the complaints about values that were logged, badCount is how many
	// there were.
	reports  map[string]struct{}
	badCount uint64
	// dnsRows and dnsRecords count for Stats.
	dnsRows, dnsRecords int
}

// localPorts are the logical ports that have an interface on one bridge, and how
// long their guests are kept.
type localPorts struct {
	names []string
	grace time.Duration
}

// maxReports bounds the memory and the log lines that bad values can cost.
const maxReports = 1000

func (w *world) init(local bool, log Logger) {
	if log == nil {
		log = silent{}
	}
	*w = world{
		log: log, local: local,
		wantedNames: make(map[string]int), missingNames: make(map[string]struct{}), interfaces: make(map[any]localPorts), reported: make(map[any][]string),
		dirty: make(map[origin.Network]bool), complete: make(map[origin.Network]struct{}),
		networksNamed: make(map[string][]origin.Network), reports: make(map[string]struct{}),
		coverageChanged: true, conditionsDirty: true,
	}
}

// addDatabases makes what is configured. Each database looks at the other, so both have
// to be there before a client delivers.
func (w *world) addDatabases(southbound, northbound bool) {
	if southbound {
		w.sb = newSouthbound(w)
		w.databases, w.topology = append(w.databases, w.sb), w.sb
	}
	if northbound {
		w.nb = newNorthbound(w)
		if w.databases = append(w.databases, w.nb); w.topology == nil {
			w.topology = w.nb
		}
	}
}

// bad counts a value that can't be read, and logs it when it is first seen.
func (w *world) bad(text string) {
	if _, seen := w.reports[text]; seen {
		return
	}
	w.badCount++
	if len(w.reports) >= maxReports {
		return
	}
	w.reports[text] = struct{}{}
	w.log.Warningf("%s", text)
	if len(w.reports) == maxReports {
		w.log.Warningf("that makes %d values that cannot be read; more are counted but not logged", maxReports)
	}
}

// reporter returns what complains of values of one row.
func (w *world) reporter(database, table string, id ovsdb.UUID) names.Report {
	return func(where, value string, err error) {
		of := ""
		if value != "" { // else it is the name that is wrong
			of = fmt.Sprintf(": value %.80q", value)
		}
		w.bad(fmt.Sprintf("%s: %s %s: %.80q%s skipped: %v", database, table, id, where, of, err))
	}
}

// isPlugged reports whether a logical port has an interface here.
func (w *world) isPlugged(port string) bool {
	_, ok := slices.BinarySearch(w.plugged, port)
	return ok
}

// graceOf is how long the guest of an interface is kept.
func (w *world) graceOf(iface string) (d time.Duration) {
	for _, local := range w.interfaces {
		if slices.Contains(local.names, iface) {
			d = max(d, local.grace)
		}
	}
	return d
}

// markDirty marks a network to be built anew.
func (w *world) markDirty(id origin.Network, withPorts bool) {
	w.dirty[id] = w.dirty[id] || withPorts
}

// isDirty reports whether a new snapshot may differ from the last.
func (w *world) isDirty() bool {
	return len(w.dirty) > 0 || w.coverageChanged || w.stageDirty || len(w.groups.touched) > 0
}

// setConditions asks the databases for the rows that are wanted now. What they
// then give may make more wanted: a port its network, a network its ports.
func (w *world) setConditions() {
	if !w.conditionsDirty {
		return
	}
	w.conditionsDirty = false
	for _, d := range w.databases {
		d.setConditions()
	}
}

// isComplete reports whether each database covers the network.
func (w *world) isComplete(id origin.Network) bool {
	if !w.local {
		return true
	}
	if _, ok := w.complete[id]; ok {
		return true
	}
	for _, d := range w.databases {
		if !d.covers(id) {
			return false
		}
	}
	w.complete[id] = struct{}{}
	return true
}

// isSettled reports whether nothing that the local chassis wants is outstanding.
func (w *world) isSettled() bool {
	switch {
	case w.sb != nil && !w.sb.located:
		return false
	case w.sb == nil && len(w.interfaces) == 0:
		return false
	}
	return w.isAcknowledged()
}

// isAcknowledged reports whether the rows are all that is wanted.
func (w *world) isAcknowledged() bool {
	for _, d := range w.databases {
		if len(d.conn().unacknowledged) > 0 {
			return false
		}
	}
	return true
}

// tellMissing logs the names that are wanted and that no network has, once everything that
// is wanted has been read, and when one has come. It is called once networksNamed is that of
// the next snapshot.
func (w *world) tellMissing() {
	if !w.isAcknowledged() {
		return
	}
	for name := range w.wantedNames {
		_, told := w.missingNames[name]
		switch missing := len(w.networksNamed[name]) == 0; {
		case missing && !told:
			w.missingNames[name] = struct{}{}
			w.log.Warningf("default_switch: no logical switch has the name %q: queries from a socket get SERVFAIL until one has", name)
		case !missing && told:
			delete(w.missingNames, name)
			w.log.Infof("default_switch: there is a logical switch %q now", name)
		}
	}
}
