// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// build makes the next snapshot from the last, in proportion to what is dirty.
func (w *world) build(prev *Snapshot) *Snapshot {
	if w.coverageChanged {
		w.markNew(prev)
	}
	next := *prev
	b := snapshotBuilder{
		world: w, prev: prev, stats: &next.Stats, portsVersion: &next.PortsVersion, forwardsVersion: &next.ForwardsVersion,
		networks: prev.networks.Edit(), byKey: prev.byKey.Edit(),
		ports: prev.ports.Edit(),
	}
	b.replaceDirty()
	next.networks, next.byKey = b.networks.Done(), b.byKey.Done()
	next.ports = b.ports.Done()
	w.buildNames(prev, &next)
	w.buildScopes(prev, &next)
	if next.scoped != prev.scoped {
		next.PortsVersion++
	}
	if w.sb != nil {
		w.buildLocal(&next)
	}
	w.buildLogged(prev, &next)
	next.Settled = w.isSettled()
	count := w.dnsCount()
	next.Stats.Names += count.records - next.dnsRecords
	next.Stats.Rows, next.dnsRecords = count.rows, count.records
	return &next
}

// built logs what is new in a snapshot from build. Nothing is dirty after it.
func (w *world) built(prev, next *Snapshot) {
	w.noteNetworks(next)
	w.log.add(notices(prev, next)...)
	clear(w.dirty)
	w.coverageChanged = false
}

// markNew marks the networks as dirty that may be complete now and are not in the snapshot.
func (w *world) markNew(prev *Snapshot) {
	for id := range w.topology.networkIDs {
		if prev.Network(id) == nil {
			w.markDirty(id, true)
		}
	}
	for id := range w.grace.rowless {
		w.markDirty(id, true)
	}
}

// buildLocal sets what Southbound says of the local chassis and of its switch.
func (w *world) buildLocal(next *Snapshot) {
	// An empty Southbound has no stage. While guests are retained, the switch still has the
	// flows from before, so the stage stays too.
	if stage := w.sb.dnsStage(); len(stage.cookies) > 0 || len(w.grace.guestSet) == 0 {
		next.stage = stage
	}
	w.builtFlows = w.sb.flows.Version()
	next.chassis, next.retained = w.sb.self, w.grace.byInterface()
}

// snapshotBuilder edits the maps of a snapshot.
type snapshotBuilder struct {
	world *world
	prev  *Snapshot
	// stats and the versions are of the next snapshot.
	stats                         *Stats
	portsVersion, forwardsVersion *uint64

	networks *names.MapEditor[origin.Network, *Network]
	byKey    *names.MapEditor[uint32, *Network]
	ports    *names.MapEditor[string, *Port]
}

// replaceDirty builds the dirty networks anew. All old ones are removed before a new one is
// added: a key may move from one network to another.
func (b *snapshotBuilder) replaceDirty() {
	built := make([]*Network, 0, len(b.world.dirty))
	for id, withPorts := range b.world.dirty {
		old := b.prev.Network(id)
		n := b.world.network(id, old, withPorts)
		if n != nil {
			delete(b.world.grace.rowless, id)
		} else {
			delete(b.world.complete, id)
			n = b.world.rowlessNetwork(old)
		}
		if n != nil {
			built = append(built, n)
		}
		if !samePorts(old, n) {
			*b.portsVersion++
		}
		if forwardsOf(old) != forwardsOf(n) {
			*b.forwardsVersion++
		}
		if old != nil {
			b.remove(old, n)
		}
	}
	for _, n := range built {
		b.add(n)
	}
}

// samePorts reports whether two versions of a network, which may be nil, differ in names
// only.
func samePorts(a, b *Network) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ports == b.ports && a.DNSMeter == b.DNSMeter
}

// remove removes a network. next is the one that replaces it, nil for none.
func (b *snapshotBuilder) remove(old, next *Network) {
	b.world.markName(old.Name)
	b.networks.Remove(old.ID)
	for _, key := range old.ports.datapaths {
		b.byKey.Remove(key)
	}
	b.stats.Networks--
	b.stats.Ports -= len(old.ports.all)
	b.stats.Names -= old.ports.hosts.Len()
	if next == nil || next.ports != old.ports {
		for _, p := range old.ports.all {
			b.ports.Remove(p.Name)
		}
	}
}

// add adds a network.
func (b *snapshotBuilder) add(n *Network) {
	b.world.markName(n.Name)
	b.networks.Set(n.ID, n)
	for _, key := range n.ports.datapaths {
		b.byKey.Set(key, n)
	}
	b.stats.Networks++
	b.stats.Ports += len(n.ports.all)
	b.stats.Names += n.ports.hosts.Len()
	if old := b.prev.Network(n.ID); old == nil || n.ports != old.ports {
		for _, p := range n.ports.all {
			b.ports.Set(p.Name, p)
		}
	}
}

// portsOf builds the ports of a network.
func (w *world) portsOf(n *Network) *ports {
	bad := n.replace("ports").add
	b := newPortsBuilder(n, bad)
	if w.dnsServerUsers > 0 {
		b.withDNSServers()
	}
	var attachments []attachment
	if w.uses().attachments() {
		attachments = attachmentsOfNetwork(w.topology, n.ID)
	}
	if w.labels.routerUsers > 0 {
		b.routers = routerNamesOf(attachments)
	}
	w.topology.addPorts(b)
	if w.gatewayUsers > 0 {
		b.addGateways(gatewaysOf(attachments))
	}
	for rows, ports := range b.dhcp {
		servers := w.nb.dnsServers(rows, bad)
		for _, p := range ports {
			p.DNSServers = servers
		}
	}
	return b.done()
}

// network builds one network, nil if it has no rows or is not complete. Unless withPorts is set it
// shares the ports of old.
func (w *world) network(id origin.Network, old *Network, withPorts bool) *Network {
	n := &Network{ID: id}
	if old != nil {
		n.problems = old.problems
	}
	dns, ok := w.topology.describe(n)
	if !ok || !w.covered().network(id) {
		return nil
	}
	if w.nb != nil {
		n.Domain = w.nb.domain(id)
		n.Forwards = w.nb.forwards(n, old)
	}
	if old != nil && !withPorts {
		n.ports = old.ports
	} else {
		n.ports = w.portsOf(n)
	}
	slices.SortFunc(dns, func(a, b *dnsRow) int { return a.id.Compare(b.id) })
	var tables []*names.Table
	for _, r := range slices.Compact(dns) {
		tables = append(tables, r.table)
	}
	n.Directory = names.NewDirectory(tables, n.ports.hosts)
	w.addRRs(n)
	return n
}

// addRRs adds the records of other types than addresses to a network.
func (w *world) addRRs(n *Network) {
	if w.nb == nil {
		return
	}
	bad := n.replace("dns-cname").add
	all := w.nb.rrRows(n.ID)
	if len(all) == 0 {
		return
	}
	tables := make([]*names.RRTable, len(all))
	for i, r := range all {
		tables[i] = r.rrs
	}
	n.Directory = n.Directory.WithRRs(tables)
	for _, r := range all {
		reportAliases(n, r, bad)
	}
}

// reportAliases reports the CNAME records of a row whose names have other data in a network. They
// do not count there.
func reportAliases(n *Network, r *northboundDNS, bad func(text string)) {
	for name := range r.rrs.Aliases() {
		a, _ := n.Lookup(name, n.Domain)
		if name == n.Domain || len(a.V4)+len(a.V6)+len(a.PTR) > 0 {
			bad(fmt.Sprintf("%s: %s %s: the CNAME record of %.80q skipped on switch %.80q: the name has other records there (RFC 2181, section 10.1)",
				northboundName, tableDNS, r.id, name, n.Name))
		}
	}
}
