// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"maps"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// world is the rows of the databases, as far as they matter, and what of the
// snapshot they have made stale.
type world struct {
	log   Logger
	local bool        // read the networks that are wanted only
	sb    *southbound // nil unless configured
	nb    *northbound

	chassis string           // the local one
	extra   map[string]int   // networks wanted by name, counted
	here    []string         // local ports, where Northbound is read alone
	told    map[any][]string // the same by who named them

	// dirty has the networks to be built anew; true: their ports as well.
	dirty map[origin.Network]bool
	// whole has the networks that all databases cover. One that is stays so
	// while it is wanted: a new port of it does not take it away for the moment
	// that Northbound needs to tell of that port.
	whole map[origin.Network]struct{}
	// recheck is set when the databases may have come to cover more networks.
	recheck bool
	// want is set when other rows may be wanted.
	want bool
	// names has the networks of the snapshot by name, sorted.
	names  map[string][]origin.Network
	groups groups
	// stale is set when the place of OVN's own DNS may have changed.
	stale bool

	reports  map[string]struct{}
	badCount uint64
	rows     int // DNS rows and their names, for Stats
	records  int
}

// maxReports bounds the memory and the log lines that bad values can cost.
const maxReports = 1000

func (w *world) init(local bool, log Logger) {
	if log == nil {
		log = silent{}
	}
	*w = world{
		log: log, local: local,
		extra: make(map[string]int), told: make(map[any][]string),
		dirty: make(map[origin.Network]bool), whole: make(map[origin.Network]struct{}),
		names: make(map[string][]origin.Network), reports: make(map[string]struct{}),
		recheck: true, want: true,
	}
}

func (w *world) databases() []*database {
	var all []*database
	if w.sb != nil {
		all = append(all, &w.sb.database)
	}
	if w.nb != nil {
		all = append(all, &w.nb.database)
	}
	return all
}

// bad counts a value that cannot be read, and logs it when it is first seen.
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

func (w *world) mark(id origin.Network, withPorts bool) {
	w.dirty[id] = w.dirty[id] || withPorts
}

func (w *world) pending() bool {
	return len(w.dirty) > 0 || w.recheck || w.stale || len(w.groups.touched) > 0
}

// ask sets the conditions of both databases to what is wanted now. What they
// then give may make more wanted: a port its network, a network its ports.
func (w *world) ask() {
	if !w.local || !w.want {
		return
	}
	w.want = false
	if w.sb != nil {
		w.sb.ask()
	}
	if w.nb != nil {
		w.nb.ask()
	}
}

// known gives the networks that rows stand for, whole or not.
func (w *world) known(yield func(origin.Network) bool) {
	if w.sb != nil {
		maps.Keys(w.sb.networks)(yield)
		return
	}
	for id := range w.nb.switches {
		if !yield(origin.Network(id)) {
			return
		}
	}
}

// isWhole tells whether each database covers the network.
func (w *world) isWhole(id origin.Network) bool {
	if !w.local {
		return true
	}
	if _, ok := w.whole[id]; ok {
		return true
	}
	if w.sb != nil && !w.sb.covers(id) || w.nb != nil && !w.nb.covers(id) {
		return false
	}
	w.whole[id] = struct{}{}
	return true
}

// build makes the next snapshot.
func (w *world) build(prev *Snapshot) *Snapshot {
	if w.recheck {
		for id := range w.known {
			if prev.Network(id) == nil {
				w.mark(id, true)
			}
		}
	}
	next := *prev
	networks, byKey := prev.networks.edit(), prev.byKey.edit()
	byName, byPort := prev.byName.edit(), prev.ports.edit()
	renamed := make(map[string]struct{})

	// All that is stale goes before anything new comes: a key or a name may pass
	// from one network to another.
	built := make([]*Network, 0, len(w.dirty))
	for id, withPorts := range w.dirty {
		old := prev.Network(id)
		n := w.network(id, old, withPorts)
		if n != nil {
			built = append(built, n)
			renamed[n.Name] = struct{}{}
		} else {
			delete(w.whole, id)
		}
		if old == nil {
			continue
		}
		renamed[old.Name] = struct{}{}
		w.rename(id, old.Name, false)
		networks.remove(id)
		for _, key := range old.ports.datapaths {
			byKey.remove(key)
		}
		next.Stats.Networks--
		next.Stats.Ports -= len(old.ports.all)
		next.Stats.Names -= len(old.ports.names)
		if n == nil || n.ports != old.ports {
			for _, p := range old.ports.all {
				byPort.remove(p.Name)
			}
		}
	}
	for _, n := range built {
		networks.set(n.ID, n)
		w.rename(n.ID, n.Name, true)
		for _, key := range n.ports.datapaths {
			byKey.set(key, n)
		}
		next.Stats.Networks++
		next.Stats.Ports += len(n.ports.all)
		next.Stats.Names += len(n.ports.names)
		if old := prev.Network(n.ID); old == nil || n.ports != old.ports {
			for _, p := range n.ports.all {
				byPort.set(p.Name, p)
			}
		}
	}
	for name := range renamed {
		if ids := w.names[name]; len(ids) > 0 {
			n, _ := networks.get(ids[0])
			byName.set(name, n)
		} else {
			byName.remove(name)
		}
	}
	next.networks, next.byKey = networks.done(), byKey.done()
	next.byName, next.ports = byName.done(), byPort.done()
	w.buildGroups(prev, &next)
	if w.sb != nil && w.stale {
		next.stage = w.sb.dnsStage()
	}
	next.Settled = w.settled()
	next.Stats.Names += w.records - next.records
	next.records = w.records
	next.Stats.Rows = w.rows
	next.Stats.BadValues = w.badCount
	clear(w.dirty)
	w.recheck, w.stale = false, false
	return &next
}

// settled tells whether nothing that the local chassis wants is outstanding.
func (w *world) settled() bool {
	switch {
	case w.sb != nil && w.sb.self == (ovsdb.UUID{}):
		return false
	case w.sb == nil && len(w.told) == 0:
		return false
	}
	for _, d := range w.databases() {
		if len(d.asked) > 0 {
			return false
		}
	}
	return true
}

// rename keeps names.
func (w *world) rename(id origin.Network, name string, add bool) {
	ids := w.names[name]
	i, found := slices.BinarySearchFunc(ids, id, compareNetworks)
	switch {
	case add && !found:
		w.names[name] = slices.Insert(ids, i, id)
	case !add && found && len(ids) == 1:
		delete(w.names, name)
	case !add && found:
		w.names[name] = slices.Delete(ids, i, i+1)
	}
}

// network builds one network, nil if there is none or not as a whole. Without
// withPorts the ports of old will do.
func (w *world) network(id origin.Network, old *Network, withPorts bool) *Network {
	n := &Network{ID: id}
	describe := w.describeNorthbound
	if w.sb != nil {
		describe = w.describeSouthbound
	}
	rows, ok := describe(n)
	if !ok || !w.isWhole(id) {
		return nil
	}
	if w.nb != nil {
		n.Domain = w.nb.domain(id)
	}
	slices.SortFunc(rows, func(a, b *dnsRow) int { return a.id.Compare(b.id) })
	for _, r := range slices.Compact(rows) {
		n.rows = append(n.rows, r.table)
		n.wild = n.wild || len(r.table.wild) > 0
	}
	if old != nil && !withPorts {
		n.ports = old.ports
	} else {
		b := newPortsBuilder(n)
		if w.sb != nil {
			w.addSouthboundPorts(b)
		} else {
			w.addNorthboundPorts(b)
		}
		n.ports = b.done()
	}
	n.HasLocalport = n.ports.localport
	return n
}

// dnsRow is a row of table DNS, of either database.
type dnsRow struct {
	id        ovsdb.UUID
	seen      uint32
	table     *table
	datapaths []ovsdb.UUID // Southbound
}

// patchDNS brings a DNS row's table up to date, and tells whether it differs.
func (w *world) patchDNS(r *dnsRow, op ovsdb.Op, row *ovsdb.Row, records, options int, bad report) bool {
	old := r.table
	if old == nil {
		old = &table{}
		w.rows++
	}
	next := old
	switch {
	case op == ovsdb.Insert && !old.same(row, records), op == ovsdb.Modify && row.Has(records):
		next = old.patch(row, records, bad)
	}
	owned := ""
	if old.owned {
		owned = "true"
	}
	if op == ovsdb.Insert {
		owned = ""
	}
	if owned := patchKey(row, options, "ovn-owned", owned) == "true"; owned != next.owned {
		c := *next
		c.owned = owned
		next = &c
	}
	r.table = next
	w.records += len(next.names) - len(old.names)
	return next != old
}

func (w *world) dropDNS(r *dnsRow) {
	w.rows--
	w.records -= len(r.table.names)
}
