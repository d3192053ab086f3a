// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"maps"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// northboundWant is what Northbound is asked for with monitor local.
type northboundWant struct {
	cover coverage
	// others identify the conditions that are not in cover.
	others []string
	// switches and ports are conditions beside those by UUID.
	switches, ports []ovsdb.Condition
	// all is set if all switches that are known are wanted, else those of cover are.
	all bool
}

// setConditions asks for the switches that Southbound wants, or for those that have a
// port here or that requests refer to, and what is joined to them; for their ports; and for what
// those refer to. Without monitor local everything is read.
func (n *northbound) setConditions(now time.Time) {
	if !n.world.local {
		n.setRouterConditions(now)
		return
	}
	want := northboundWant{cover: coverage{rows: make(map[string][]ovsdb.UUID)}, all: true}
	if n.world.sb != nil {
		want.cover.rows[tableSwitch] = n.southboundSwitches()
	} else {
		n.wantByNames(&want)
	}
	cover := want.cover.rows
	cover[tableSwitch] = sortedSet(cover[tableSwitch])
	n.wantReferences(&want)
	for table, ids := range cover {
		cover[table] = sortedSet(ids)
	}
	n.wantRouters(&want.cover)
	conditions := map[string][]ovsdb.Condition{
		tableSwitch:     byUUID("_uuid", "==", cover[tableSwitch], want.switches...),
		tableSwitchPort: byUUID("_uuid", "==", cover[tableSwitchPort], want.ports...),
		tableDHCP:       byUUID("_uuid", "==", cover[tableDHCP]),
		tableDNS:        byUUID("_uuid", "==", cover[tableDNS]),
	}
	if n.world.sb != nil {
		maps.Copy(conditions, routerConditions(want.cover))
	}
	if sb := n.world.sb; sb != nil && n.follows != sb.latest.gen {
		n.follows, n.narrowAt = sb.latest.gen, now // what Southbound has given up goes here, too
	}
	n.set(want.cover, want.others, conditions, now)
	n.dropUnasked()
}

// dropUnasked notes that the switches that are not asked for any more are not complete.
func (n *northbound) dropUnasked() {
	for id := range n.switches.All() {
		_, complete := n.world.complete[origin.Network(id)]
		if complete && !n.latest.coverage.has(tableSwitch, id) {
			delete(n.world.complete, origin.Network(id))
			n.world.markDirty(origin.Network(id), true)
		}
	}
}

// southboundSwitches are the switches of the datapaths that Southbound wants.
func (n *northbound) southboundSwitches() (ids []ovsdb.UUID) {
	sb := n.world.sb
	for _, id := range sb.latest.coverage.rows[tableDatapath] {
		if d := sb.datapaths.Get(id); d != nil && !d.network.IsZero() {
			ids = append(ids, ovsdb.UUID(d.network))
		}
	}
	return ids
}

// wantByNames wants the switches of the ports that are plugged here, those that requests
// refer to, and what is joined to them.
func (n *northbound) wantByNames(want *northboundWant) {
	var from []ovsdb.UUID // of the switches, those that are known
	for _, name := range n.world.plugged {
		want.ports = append(want.ports, ovsdb.Condition{Column: "name", Function: "==", Value: name})
		want.others = append(want.others, byPortName(name))
		if p := n.portNamed[name]; p != nil {
			want.wantSwitchOf(p.id)
			want.others = append(want.others, "switch of "+p.id.String())
			if s, ok := n.switchOf[p.id]; ok {
				from = append(from, s)
			}
		}
	}
	for _, r := range n.world.references.sorted() {
		condition := ovsdb.Condition{Column: "name", Function: "==", Value: r.Name}
		if r.Name == "" {
			condition = ovsdb.Condition{Column: "_uuid", Function: "==", Value: ovsdb.UUID(r.ID)}
		}
		want.switches = append(want.switches, condition)
		want.others = append(want.others, "switch "+r.String())
	}
	for id, s := range n.switches.All() {
		if n.world.references.has(s.name, origin.Network(id)) {
			from = append(from, id)
		}
	}
	if n.world.groups.users > 0 {
		n.wantJoined(want, from)
	}
}

// byPortName identifies the condition for a port by its name.
func byPortName(name string) string { return "port " + name }

// wantJoined wants what is joined to switches, and nothing else of what is known: all
// ports that join are read, of whatever switch.
func (n *northbound) wantJoined(want *northboundWant, from []ovsdb.UUID) {
	want.all, want.cover.routers = false, true
	want.ports = append(want.ports, byText("type", []string{kindRouter, kindLocalnet})...)
	var nodes []ovsdb.UUID
	nodes, want.cover.farPorts = reach(n, from)
	for _, id := range nodes {
		if n.switches.Get(id) != nil {
			want.cover.rows[tableSwitch] = append(want.cover.rows[tableSwitch], id)
		}
	}
	for _, port := range want.cover.farPorts {
		want.wantSwitchOf(port.id)
	}
}

// wantSwitchOf wants the switch of a port.
func (want *northboundWant) wantSwitchOf(port ovsdb.UUID) {
	want.switches = append(want.switches, ovsdb.Condition{Column: "ports", Function: "includes", Value: port})
}

// wantReferences wants what the wanted switches refer to, and their ports.
func (n *northbound) wantReferences(want *northboundWant) {
	cover := want.cover.rows
	for id, s := range n.switches.All() {
		if want.all || contains(cover[tableSwitch], id) {
			cover[tableSwitchPort] = append(cover[tableSwitchPort], s.ports...)
			cover[tableDNS] = append(cover[tableDNS], s.dnsRows...)
		}
	}
	for _, p := range n.ports.All() {
		cover[tableDHCP] = append(cover[tableDHCP], n.wantedDHCP(p)...)
	}
}

// wantedDHCP returns the DHCP_Options rows that are read for a port: that for IPv4 has the
// domain.
func (n *northbound) wantedDHCP(p *switchPort) (rows []ovsdb.UUID) {
	if p.dhcp.v4 != (ovsdb.UUID{}) {
		rows = append(rows, p.dhcp.v4)
	}
	if p.dhcp.v6 != (ovsdb.UUID{}) && n.world.dnsServerUsers > 0 {
		rows = append(rows, p.dhcp.v6)
	}
	return rows
}

func (n *northbound) covers(id origin.Network) bool {
	brings := func(table string, ids ...ovsdb.UUID) bool {
		return n.brings(func(c coverage) bool { return c.hasAll(table, ids) })
	}
	if n.world.sb != nil && !brings(tableSwitch, ovsdb.UUID(id)) {
		return false
	}
	s := n.switches.Get(ovsdb.UUID(id))
	if s == nil {
		return true // there is none, or it is gone
	}
	if !brings(tableSwitchPort, s.ports...) || !brings(tableDNS, s.dnsRows...) {
		return false
	}
	if !n.coversRouters(ovsdb.UUID(id)) {
		return false
	}
	for _, id := range s.ports {
		if p := n.ports.Get(id); p != nil && !brings(tableDHCP, n.wantedDHCP(p)...) {
			return false
		}
	}
	return true
}
