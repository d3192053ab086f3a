// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
)

// build makes the next snapshot from the last, in proportion to what is dirty.
func (w *world) build(prev *Snapshot) *Snapshot {
	if w.coverageChanged {
		w.markNew(prev)
	}
	e := prev.Edit()
	w.buildNetworks(e)
	w.buildNames(e)
	w.buildScopes(prev, e)
	if w.sb != nil {
		w.buildLocal(e)
	}
	e.setRows(w.dnsCount())
	next := e.Done()
	w.buildLogged(prev, next)
	next.Settled = w.isSettled()
	return next
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

// buildLocal sets the local chassis, its retained guests, and the stage of its switch.
func (w *world) buildLocal(e *Editor) {
	// An empty Southbound has no stage. While guests are retained, the switch still has the
	// flows from before, so the stage stays too.
	if stage := w.sb.dnsStage(); len(stage.cookies) > 0 || len(w.grace.guestSet) == 0 {
		e.setStage(stage)
	}
	w.builtFlows = w.sb.flows.Version()
	e.setLocal(w.sb.self, w.grace.byInterface())
}

// networkInputs is all that a network is made of. It is read, never changed.
type networkInputs struct {
	topology topology
	sb       *southbound // nil if it is not read
	nb       *northbound // nil if it is not read
	covered  covered
	// guests and retained decide which ports of Southbound are Local. Where Northbound is read alone, these are
	// the ports of plugged, sorted.
	guests   *guestInputs
	retained guestSet
	plugged  []string
}

func (w *world) networkInputs() *networkInputs {
	in := &networkInputs{topology: w.topology, sb: w.sb, nb: w.nb, covered: w.covered(), retained: w.grace.guestSet, plugged: w.plugged}
	if w.sb != nil {
		in.guests = w.guestInputs(time.Time{})
	}
	return in
}

// buildNetworks replaces the dirty networks.
func (w *world) buildNetworks(e *Editor) {
	in := w.networkInputs()
	w.bad.built = make(map[origin.Network]problems)
	for id, withPorts := range w.dirty {
		old := e.Network(id)
		if old != nil {
			w.markName(old.Name)
		}
		p := w.bad.ofNetwork(id)
		n := in.network(id, old, withPorts, &p)
		if n != nil {
			w.bad.built[id] = p
			delete(w.grace.rowless, id)
		} else {
			delete(w.complete, id)
			n = w.rowlessNetwork(old)
		}
		if n == nil {
			e.Remove(id)
			continue
		}
		w.markName(n.Name)
		e.Put(n)
	}
}

// network returns one network by the rows, nil if it has no rows or is not covered. Unless withPorts is set
// the network shares the ports of old, the previous version. p are the problems of that version, and get
// those of the network.
func (in *networkInputs) network(id origin.Network, old *Network, withPorts bool, p *problems) *Network {
	d := NetworkData{ID: id}
	dns, ok := in.topology.describe(&d)
	if !ok || !in.covered.network(id) {
		return nil
	}
	var rrs []*northboundDNS
	if in.nb != nil {
		d.Domain = in.nb.domain(id)
		rrs = in.nb.rrRows(id)
		var forwards []forwardRow
		if in.covered.forwards {
			forwards = in.nb.forwardRows(id)
		}
		d.Forwards = forwardsBy(forwards, id, old, p)
	}
	if old != nil && !withPorts {
		d.Ports = old.ports
	} else {
		d.Ports = in.ports(&d, p.replace("ports").add)
	}
	slices.SortFunc(dns, func(a, b *dnsRow) int { return a.id.Compare(b.id) })
	for _, r := range slices.Compact(dns) {
		d.Tables = append(d.Tables, r.table)
	}
	for _, r := range rrs {
		d.RRs = append(d.RRs, r.rrs)
	}
	n := NewNetwork(d)
	bad := p.replace("dns-cname").add
	for _, r := range rrs {
		reportAliases(n, r, bad)
	}
	return n
}

// reportAliases reports the CNAME records of a row whose names have other records in a network. The
// network skips them.
func reportAliases(n *Network, r *northboundDNS, bad func(text string)) {
	for name := range r.rrs.Aliases() {
		a, _ := n.Lookup(name, n.Domain)
		if name == n.Domain || len(a.V4)+len(a.V6)+len(a.PTR) > 0 {
			bad(fmt.Sprintf("%s: %s %s: the CNAME record of %.80q skipped on switch %.80q: the name has other records there (RFC 2181, section 10.1)",
				northboundName, tableDNS, r.id, name, n.Name))
		}
	}
}

// portRows collects the ports of one network from the rows of both databases.
type portRows struct {
	*networkInputs
	PortsData
	domain string // of the network
	// servers has the DNS servers by the rows of DHCP options, nil unless a request asks for them.
	servers map[dhcpRows][]netip.Addr
	bad     func(text string)
}

// portBuffers has buffers for PortsData.Ports: a large network may be built often.
var portBuffers = sync.Pool{New: func() any { return new([]PortData) }}

// ports returns the ports of a network.
func (in *networkInputs) ports(d *NetworkData, bad func(text string)) *Ports {
	uses := in.covered.uses
	to := portRows{
		networkInputs: in, domain: d.Domain, bad: bad,
		PortsData: PortsData{Network: d.ID, Switch: d.Name, Machines: uses.dnsServers},
	}
	if uses.dnsServers {
		to.servers = make(map[dhcpRows][]netip.Addr)
	}
	var attachments []attachment
	if uses.attachments() {
		attachments = attachmentsOfNetwork(in.topology, d.ID)
	}
	if uses.routerNames {
		to.Routers = routerNamesOf(attachments)
	}
	if uses.gateways {
		to.Gateways = gatewaysOf(attachments)
	}
	buffer := portBuffers.Get().(*[]PortData)
	to.Ports = *buffer
	in.topology.addPorts(&to)
	ports, problems := NewPorts(to.PortsData)
	clear(to.Ports)
	*buffer = to.Ports[:0]
	portBuffers.Put(buffer)
	for _, text := range problems {
		bad(southboundName + ": " + text)
	}
	return ports.WithRetained(in.retained.of(d.ID))
}

// dnsServers returns the DNS servers of ports with those DHCP options. Ports with the same options share
// the slice.
func (to *portRows) dnsServers(of dhcpRows) []netip.Addr {
	if to.servers == nil || of == (dhcpRows{}) {
		return nil
	}
	all, ok := to.servers[of]
	if !ok {
		all = to.nb.dnsServers(of, to.bad)
		to.servers[of] = all
	}
	return all
}
