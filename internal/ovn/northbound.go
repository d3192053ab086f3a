// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// The tables of ovn-nb(5) that are read, DNS aside, and those of their columns.
const (
	tableSwitch = "Logical_Switch"
	tableLSP    = "Logical_Switch_Port"
	tableDHCP   = "DHCP_Options"
)

const (
	switchName = iota
	switchPorts
	switchConfig
	switchIDs
	switchDNS
)

const (
	lspName = iota
	lspType
	lspOptions
	lspAddresses
	lspDynamic
	lspDHCP
	lspEnabled
	lspParent
	lspTag
)

const (
	dhcpOptions = iota
)

// Columns of DNS. The records are the first in both databases.
const nbDNSOptions = 1

// northbound is the rows of OVN_Northbound.
type northbound struct {
	database
	world *world

	switches map[ovsdb.UUID]*logicalSwitch
	ports    map[ovsdb.UUID]*switchPort
	dhcp     map[ovsdb.UUID]*dhcp
	dns      map[ovsdb.UUID]*dnsRow // without Southbound only

	byName   map[string]*switchPort
	switchOf map[ovsdb.UUID]ovsdb.UUID                    // by port
	dhcpOf   map[ovsdb.UUID]map[ovsdb.UUID]struct{}       // ports by DHCP_Options
	dnsOf    map[ovsdb.UUID]map[ovsdb.UUID]*logicalSwitch // switches by DNS row
	routers  routers
}

type logicalSwitch struct {
	seen           uint32
	name           string
	config, ids    string // the domain as it stands in other_config, external_ids
	domain         string
	ports, dnsRows []ovsdb.UUID
}

type switchPort struct {
	seen       uint32
	id         ovsdb.UUID
	name, kind string
	hostname   string // as it stands
	canonical  string
	addresses  []string
	dynamic    string
	fixed      addresses
	given      addresses // of dynamic
	dhcp       ovsdb.UUID
	disabled   bool
	parent     string
	tag        uint16
	routerPort string // the router's, of a port of type router
}

type dhcp struct {
	seen   uint32
	raw    string
	domain string
}

func newNorthbound(w *world) *northbound {
	return &northbound{
		database: newDatabase(Northbound), world: w,
		switches: make(map[ovsdb.UUID]*logicalSwitch), ports: make(map[ovsdb.UUID]*switchPort),
		dhcp: make(map[ovsdb.UUID]*dhcp), dns: make(map[ovsdb.UUID]*dnsRow),
		byName: make(map[string]*switchPort), switchOf: make(map[ovsdb.UUID]ovsdb.UUID),
		dhcpOf:  make(map[ovsdb.UUID]map[ovsdb.UUID]struct{}),
		dnsOf:   make(map[ovsdb.UUID]map[ovsdb.UUID]*logicalSwitch),
		routers: newRouters(),
	}
}

func (n *northbound) tables() []ovsdb.TableRequest {
	var some []ovsdb.Condition // all, unless conditions are to follow
	if n.world.local {
		some = []ovsdb.Condition{}
	}
	all := []ovsdb.TableRequest{
		{Table: tableSwitch, Columns: []string{"name", "ports", "other_config", "external_ids", "dns_records"}, Where: some},
		{Table: tableLSP, Columns: []string{"name", "type", "options", "addresses", "dynamic_addresses", "dhcpv4_options", "enabled", "parent_name", "tag"}, Where: some},
		{Table: tableDHCP, Columns: []string{"options"}, Where: some},
	}
	if n.world.sb == nil {
		all = append(all,
			ovsdb.TableRequest{Table: tableDNS, Columns: []string{"records"}, Optional: []string{"options"}, Where: some},
			ovsdb.TableRequest{Table: tableRouter, Columns: []string{"ports"}},
			ovsdb.TableRequest{Table: tableRouterPort, Columns: []string{"name", "peer"}})
	}
	return all
}

// ask works out which rows are wanted: the switches that Southbound wants, or
// those that have a port here or a wanted name and what is joined to them; their
// ports; what those refer to.
func (n *northbound) ask() {
	c := cover{rows: make(map[string][]ovsdb.UUID)}
	var others []ovsdb.Condition // of switches
	var names []ovsdb.Condition  // of ports
	other := ""
	wanted := func(ovsdb.UUID) bool { return true }
	if n.world.sb != nil {
		for _, id := range n.world.sb.last.cover.rows[tableDatapath] {
			if d := n.world.sb.datapaths[id]; d != nil && !d.logical.IsZero() {
				c.rows[tableSwitch] = append(c.rows[tableSwitch], ovsdb.UUID(d.logical))
			}
		}
	} else {
		var from []ovsdb.UUID
		for _, name := range n.world.here {
			names = append(names, ovsdb.Condition{Column: "name", Function: "==", Value: name})
			if p := n.byName[name]; p != nil {
				others = append(others, ovsdb.Condition{Column: "ports", Function: "includes", Value: p.id})
				other += p.id.String()
				if s, ok := n.switchOf[p.id]; ok {
					from = append(from, s)
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(n.world.extra)) {
			others = append(others, ovsdb.Condition{Column: "name", Function: "==", Value: name})
			other += fmt.Sprintf("%q", name)
			for id, s := range n.switches {
				if s.name == name {
					from = append(from, id)
				}
			}
		}
		other += fmt.Sprintf("%q", n.world.here)
		if c.joined = n.world.groups.wanted > 0; c.joined {
			for _, kind := range []string{kindRouter, kindLocalnet} {
				names = append(names, ovsdb.Condition{Column: "type", Function: "==", Value: kind})
			}
			switches, peers := n.reach(from)
			c.rows[tableSwitch] = switches
			for _, id := range peers {
				others = append(others, ovsdb.Condition{Column: "ports", Function: "includes", Value: id})
				c.peers = append(c.peers, id.String())
			}
			wanted = func(id ovsdb.UUID) bool {
				_, ok := slices.BinarySearchFunc(switches, id, ovsdb.UUID.Compare)
				return ok
			}
		}
	}
	for id, s := range n.switches {
		if wanted(id) {
			c.rows[tableLSP] = append(c.rows[tableLSP], s.ports...)
			c.rows[tableDNS] = append(c.rows[tableDNS], s.dnsRows...)
		} else if _, ok := n.world.whole[origin.Network(id)]; ok {
			delete(n.world.whole, origin.Network(id))
			n.world.mark(origin.Network(id), true)
		}
	}
	for _, p := range n.ports {
		if p.dhcp != (ovsdb.UUID{}) {
			c.rows[tableDHCP] = append(c.rows[tableDHCP], p.dhcp)
		}
	}
	for table, ids := range c.rows {
		c.rows[table] = sorted(ids)
	}
	n.database.ask(c, other, map[string][]ovsdb.Condition{
		tableSwitch: byUUID("_uuid", "==", c.rows[tableSwitch], others...),
		tableLSP:    byUUID("_uuid", "==", c.rows[tableLSP], names...),
		tableDHCP:   byUUID("_uuid", "==", c.rows[tableDHCP]),
		tableDNS:    byUUID("_uuid", "==", c.rows[tableDNS]),
	})
}

// covers tells whether the conditions acknowledged give all rows of a network.
func (n *northbound) covers(id origin.Network) bool {
	if n.world.sb != nil && !n.cover.has(tableSwitch, ovsdb.UUID(id)) {
		return false
	}
	s := n.switches[ovsdb.UUID(id)]
	if s == nil {
		return true // there is none, or it is gone
	}
	if !n.cover.hasAll(tableLSP, s.ports) || n.world.sb == nil && !n.cover.hasAll(tableDNS, s.dnsRows) {
		return false
	}
	for _, id := range s.ports {
		if p := n.ports[id]; p != nil && p.dhcp != (ovsdb.UUID{}) && !n.cover.has(tableDHCP, p.dhcp) {
			return false
		}
	}
	return true
}

func (n *northbound) row(table string, id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	switch table {
	case tableSwitch:
		n.switchRow(id, op, row)
	case tableLSP:
		n.portRow(id, op, row)
	case tableDHCP:
		n.dhcpRow(id, op, row)
	case tableDNS:
		n.dnsRow(id, op, row)
	case tableRouter:
		n.routerRow(id, op, row)
	case tableRouterPort:
		n.routerPortRow(id, op, row)
	}
}

// sweep removes what a new connection has not brought again.
func (n *northbound) sweep() {
	for id, r := range n.ports {
		if r.seen != n.generation {
			n.portRow(id, ovsdb.Delete, nil)
		}
	}
	for id, r := range n.dhcp {
		if r.seen != n.generation {
			n.dhcpRow(id, ovsdb.Delete, nil)
		}
	}
	for id, r := range n.dns {
		if r.seen != n.generation {
			n.dnsRow(id, ovsdb.Delete, nil)
		}
	}
	for id, r := range n.switches {
		if r.seen != n.generation {
			n.switchRow(id, ovsdb.Delete, nil)
		}
	}
	n.sweepRouters()
}

func (n *northbound) switchRow(id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	old := n.switches[id]
	if op == ovsdb.Delete {
		if old != nil {
			n.relinkSwitch(id, old, &logicalSwitch{})
			delete(n.switches, id)
		}
		return
	}
	var next logicalSwitch
	if old != nil && op == ovsdb.Modify {
		next = *old
	}
	was := next
	next.seen = n.generation
	if op == ovsdb.Insert || row.Has(switchName) {
		next.name = row.String(switchName)
	}
	next.ports = row.PatchUUIDs(switchPorts, next.ports)
	next.dnsRows = row.PatchUUIDs(switchDNS, next.dnsRows)
	next.config = patchKey(row, switchConfig, "dns_domain", next.config)
	next.ids = patchKey(row, switchIDs, "dns_domain", next.ids)
	if old != nil && next.name == old.name && next.config == old.config && next.ids == old.ids &&
		slices.Equal(next.ports, old.ports) && slices.Equal(next.dnsRows, old.dnsRows) {
		old.seen = next.seen
		return
	}
	if next.config != was.config || next.ids != was.ids {
		bad := n.world.reporter(Northbound, tableSwitch, id)
		if next.domain = parseDomainName(next.config, bad); next.domain == "" {
			next.domain = parseDomainName(next.ids, bad)
		}
	}
	if old == nil {
		old = &logicalSwitch{}
	}
	n.switches[id] = &next
	n.relinkSwitch(id, old, &next)
}

func (n *northbound) relinkSwitch(id ovsdb.UUID, old, next *logicalSwitch) {
	for _, p := range old.ports {
		if n.switchOf[p] == id {
			delete(n.switchOf, p)
		}
	}
	for _, p := range next.ports {
		n.switchOf[p] = id
	}
	for _, d := range old.dnsRows {
		unlink(n.dnsOf, d, id)
	}
	for _, d := range next.dnsRows {
		link(n.dnsOf, d, id, next)
	}
	n.world.mark(origin.Network(id), true)
	n.world.want = true
	n.touch(id)
}

func (n *northbound) portRow(id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	old := n.ports[id]
	if op == ovsdb.Delete {
		if old != nil {
			n.unlinkPort(old)
			delete(n.ports, id)
		}
		return
	}
	next := switchPort{id: id}
	if old != nil && op == ovsdb.Modify {
		next = *old
	}
	was := next
	next.seen = n.generation
	all := op == ovsdb.Insert
	if all || row.Has(lspName) {
		next.name = row.String(lspName)
	}
	if all || row.Has(lspType) {
		next.kind = row.String(lspType)
	}
	next.hostname = patchKey(row, lspOptions, "hostname", next.hostname)
	next.routerPort = patchKey(row, lspOptions, "router-port", next.routerPort)
	next.addresses = row.PatchStrings(lspAddresses, next.addresses)
	if all || row.Has(lspDynamic) {
		next.dynamic = row.String(lspDynamic)
	}
	if all || row.Has(lspDHCP) {
		next.dhcp = row.UUID(lspDHCP)
	}
	if all || row.Has(lspEnabled) {
		next.disabled = row.Len(lspEnabled) > 0 && !row.Bool(lspEnabled)
	}
	if all || row.Has(lspParent) {
		next.parent = row.String(lspParent)
	}
	if all || row.Has(lspTag) {
		next.tag = uint16(row.Int(lspTag))
	}
	if old != nil && next.equals(old) {
		old.seen = next.seen
		return
	}
	bad := n.world.reporter(Northbound, tableLSP, id)
	if next.hostname != was.hostname {
		next.canonical = parseHostname(next.hostname, bad)
	}
	if !slices.Equal(next.addresses, was.addresses) {
		next.fixed = parsePortAddresses(next.addresses, bad)
	}
	if next.dynamic != was.dynamic {
		next.given = parsePortAddresses([]string{next.dynamic}, bad)
	}
	if old != nil {
		n.unlinkPort(old)
	}
	n.ports[id] = &next
	n.linkPort(&next)
}

// equals compares what stands in the row.
func (p *switchPort) equals(o *switchPort) bool {
	return p.name == o.name && p.kind == o.kind && p.hostname == o.hostname && slices.Equal(p.addresses, o.addresses) &&
		p.dynamic == o.dynamic && p.dhcp == o.dhcp && p.disabled == o.disabled && p.parent == o.parent && p.tag == o.tag &&
		p.routerPort == o.routerPort
}

// all gives the addresses, northd's choice included where that is asked for.
func (p *switchPort) all() []netip.Addr {
	if !p.fixed.dynamic {
		return p.fixed.fixed
	}
	return sortAddresses(slices.Concat(p.fixed.fixed, p.given.fixed))
}

func (n *northbound) linkPort(p *switchPort) {
	n.byName[p.name] = p
	if p.dhcp != (ovsdb.UUID{}) {
		link(n.dhcpOf, p.dhcp, p.id, struct{}{})
	}
	if p.kind == kindRouter {
		link(n.routers.attached, p.routerPort, p.id, p)
	}
	n.touchPort(p)
}

func (n *northbound) unlinkPort(p *switchPort) {
	// A row of that name may have come before this one went.
	if n.byName[p.name] == p {
		delete(n.byName, p.name)
	}
	unlink(n.dhcpOf, p.dhcp, p.id)
	if p.kind == kindRouter {
		unlink(n.routers.attached, p.routerPort, p.id)
	}
	n.touchPort(p)
}

func (n *northbound) touchPort(p *switchPort) {
	n.markPort(p.id)
	n.touchRouterPort(p)
	n.world.want = true
}

func (n *northbound) markPort(id ovsdb.UUID) {
	// One whose switch is not known yet is marked when that comes.
	if s, ok := n.switchOf[id]; ok {
		n.world.mark(origin.Network(s), true)
	}
}

func (n *northbound) dirtyPortNamed(name string) {
	if p := n.byName[name]; p != nil {
		n.markPort(p.id)
	}
}

func (n *northbound) dhcpRow(id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	d := n.dhcp[id]
	if op == ovsdb.Delete {
		delete(n.dhcp, id)
	} else {
		if d == nil {
			d = &dhcp{}
			n.dhcp[id] = d
		}
		d.seen = n.generation
		old := d.raw
		if op == ovsdb.Insert {
			d.raw = ""
		}
		d.raw = patchKey(row, dhcpOptions, "domain_name", d.raw)
		if d.raw == old {
			return
		}
		d.domain = parseDomainName(d.raw, n.world.reporter(Northbound, tableDHCP, id))
	}
	for p := range n.dhcpOf[id] {
		n.markPort(p)
	}
}

func (n *northbound) dnsRow(id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	r := n.dns[id]
	mark := func() {
		for s := range n.dnsOf[id] {
			n.world.mark(origin.Network(s), false)
		}
	}
	if op == ovsdb.Delete {
		if r != nil {
			n.world.dropDNS(r)
			delete(n.dns, id)
			mark()
		}
		return
	}
	if r == nil {
		r = &dnsRow{id: id}
		n.dns[id] = r
		mark()
	}
	r.seen = n.generation
	if n.world.patchDNS(r, op, row, dnsRecords, nbDNSOptions, n.world.reporter(Northbound, tableDNS, id)) {
		mark()
	}
}

// domain is what Northbound says the domain of a switch is.
func (n *northbound) domain(id origin.Network) string {
	if s := n.switches[ovsdb.UUID(id)]; s != nil {
		return s.domain
	}
	return ""
}

// complete adds to a port what only Northbound knows: the addresses that northd
// chose, the domain that DHCP tells it, and whether it is switched off. A row of
// that name on another switch is no row of that port: northd is to move it yet.
func (n *northbound) complete(id origin.Network, l *logicalPort) {
	p := n.byName[l.name]
	if p == nil || n.switchOf[p.id] != ovsdb.UUID(id) {
		return
	}
	l.addresses = p.all()
	l.disabled = p.disabled
	if d := n.dhcp[p.dhcp]; d != nil && d.domain != "" {
		l.domain = d.domain
	}
}

// describeNorthbound is describeSouthbound where Northbound is read alone.
func (w *world) describeNorthbound(n *Network) ([]*dnsRow, bool) {
	s := w.nb.switches[ovsdb.UUID(n.ID)]
	if s == nil {
		return nil, false
	}
	n.Name = s.name
	var rows []*dnsRow
	for _, id := range s.dnsRows {
		if r := w.nb.dns[id]; r != nil {
			rows = append(rows, r)
		}
	}
	return rows, true
}

// addNorthboundPorts is addSouthboundPorts where Northbound is read alone.
func (w *world) addNorthboundPorts(b *portsBuilder) {
	for _, id := range w.nb.switches[ovsdb.UUID(b.network.ID)].ports {
		p := w.nb.ports[id]
		if p == nil {
			continue
		}
		_, here := slices.BinarySearch(w.here, p.name)
		l := logicalPort{
			name: p.name, kind: p.kind, parent: p.parent, tag: p.tag,
			hostname: p.canonical, domain: b.network.Domain, local: here,
		}
		w.nb.complete(b.network.ID, &l)
		b.add(l)
	}
}
