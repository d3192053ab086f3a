// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// The tables of ovn-sb(5) that are read, and those of their columns.
const (
	tableChassis  = "Chassis"
	tableDatapath = "Datapath_Binding"
	tablePort     = "Port_Binding"
	tableDNS      = "DNS"
	tableFlow     = "Logical_Flow"
)

const (
	chassisName = iota
)

const (
	datapathKey = iota
	datapathIDs
	datapathNBUUID // from OVN 25.09
	datapathType   // from OVN 25.09
)

const (
	portName = iota
	portDatapath
	portKey
	portType
	portParent
	portTag
	portMAC
	portOptions
	portChassis
)

const (
	dnsRecords = iota
	dnsDatapaths
	dnsOptions // from OVN 24.03
)

const (
	flowPipeline = iota
	flowTable
)

// stageName is the stage of OVN's own DNS in the ingress pipeline.
const stageName = "ls_in_dns_lookup"

// southbound is the rows of OVN_Southbound.
type southbound struct {
	database
	world *world

	self      ovsdb.UUID // row of the local chassis, zero if there is none
	chassis   map[ovsdb.UUID]*chassis
	datapaths map[ovsdb.UUID]*datapath
	ports     map[ovsdb.UUID]*binding
	dns       map[ovsdb.UUID]*dnsRow
	flows     map[ovsdb.UUID]*flow

	// From a network to its datapaths (one, but while northd replaces it), and
	// from a datapath to what refers to it.
	networks map[origin.Network]map[ovsdb.UUID]*datapath
	portsOf  map[ovsdb.UUID]map[ovsdb.UUID]*binding
	dnsOf    map[ovsdb.UUID]map[ovsdb.UUID]*dnsRow
	peers    peers
}

type chassis struct {
	seen uint32
	name string
}

type datapath struct {
	seen    uint32
	id      ovsdb.UUID
	key     uint32
	name    string
	legacy  string         // external_ids:logical-switch
	nbUUID  ovsdb.UUID     // the same since OVN 25.09
	kind    string         // what nbUUID is
	logical origin.Network // zero for a router
}

type binding struct {
	seen       uint32
	name, kind string
	datapath   ovsdb.UUID
	chassis    ovsdb.UUID
	key        uint32
	tag        uint16
	parent     string
	peer       string // of a patch port: the port at its other end
	hostname   string // as it stands
	canonical  string
	mac        []string
	addresses  addresses
}

type flow struct {
	seen    uint32
	ingress bool
	table   int
}

func newSouthbound(w *world) *southbound {
	return &southbound{
		database: newDatabase(Southbound), world: w,
		chassis: make(map[ovsdb.UUID]*chassis), datapaths: make(map[ovsdb.UUID]*datapath),
		ports: make(map[ovsdb.UUID]*binding), dns: make(map[ovsdb.UUID]*dnsRow), flows: make(map[ovsdb.UUID]*flow),
		networks: make(map[origin.Network]map[ovsdb.UUID]*datapath),
		portsOf:  make(map[ovsdb.UUID]map[ovsdb.UUID]*binding),
		dnsOf:    make(map[ovsdb.UUID]map[ovsdb.UUID]*dnsRow),
		peers:    newPeers(),
	}
}

func (s *southbound) tables() []ovsdb.TableRequest {
	none := []ovsdb.Condition{}
	var some []ovsdb.Condition // all, unless conditions are to follow
	if s.world.local {
		some = none
	}
	return []ovsdb.TableRequest{
		{Table: tableChassis, Columns: []string{"name"}},
		{Table: tableDatapath, Columns: []string{"tunnel_key", "external_ids"}, Optional: []string{"nb_uuid", "type"}, Where: some},
		{Table: tablePort, Columns: []string{"logical_port", "datapath", "tunnel_key", "type", "parent_port", "tag", "mac", "options", "chassis"}, Where: some},
		{Table: tableDNS, Columns: []string{"records", "datapaths"}, Optional: []string{"options"}, Where: some},
		{Table: tableFlow, Columns: []string{"pipeline", "table_id"}, Where: []ovsdb.Condition{
			{Column: "external_ids", Function: "includes", Value: map[string]string{"stage-name": stageName}},
		}},
	}
}

// ask works out which datapaths are wanted: those of the guests here, those
// named, and what is joined to them. The local chassis is asked for by name, its
// ports by the chassis.
func (s *southbound) ask() {
	var want []ovsdb.UUID
	for _, p := range s.ports {
		if isGuest(p.kind) && s.isHere(p) {
			want = append(want, p.datapath)
		}
	}
	for id, d := range s.datapaths {
		if s.world.extra[d.name] > 0 {
			want = append(want, id)
		}
	}
	want = sorted(want)
	var here []ovsdb.Condition
	if s.self != (ovsdb.UUID{}) {
		here = byUUID("chassis", "includes", []ovsdb.UUID{s.self})
	}
	c := cover{joined: s.world.groups.wanted > 0}
	if c.joined {
		want, c.peers = s.reach(want)
		here = append(here, ovsdb.Condition{Column: "type", Function: "==", Value: kindLocalnet})
		for _, name := range c.peers {
			here = append(here, ovsdb.Condition{Column: "logical_port", Function: "==", Value: name})
		}
	}
	c.rows = map[string][]ovsdb.UUID{tableDatapath: want}
	var named []ovsdb.Condition
	extra := slices.Sorted(maps.Keys(s.world.extra))
	for _, name := range extra {
		named = append(named, ovsdb.Condition{Column: "external_ids", Function: "includes", Value: map[string]string{"name": name}})
	}
	s.database.ask(c, fmt.Sprintf("%s %q", s.self, extra), map[string][]ovsdb.Condition{
		tablePort:     byUUID("datapath", "==", want, here...),
		tableDatapath: byUUID("_uuid", "==", want, named...),
		tableDNS:      byUUID("datapaths", "includes", want),
	})
}

// covers tells whether the conditions acknowledged give all rows of a network.
func (s *southbound) covers(id origin.Network) bool {
	for dp := range s.networks[id] {
		if !s.cover.has(tableDatapath, dp) {
			return false
		}
	}
	return true
}

func (s *southbound) isHere(p *binding) bool {
	return s.self != (ovsdb.UUID{}) && p.chassis == s.self
}

// locate finds the row of the local chassis, by its name.
func (s *southbound) locate() {
	var self ovsdb.UUID
	if s.world.chassis != "" {
		for id, c := range s.chassis {
			if c.name == s.world.chassis {
				self = id
			}
		}
	}
	if self == s.self {
		return
	}
	for _, p := range s.ports {
		if p.chassis == self || p.chassis == s.self {
			s.markDatapath(p.datapath, true)
		}
	}
	s.self = self
	s.world.want, s.world.recheck = true, true
}

func (s *southbound) row(table string, id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	switch table {
	case tableChassis:
		s.chassisRow(id, op, row)
	case tableDatapath:
		s.datapathRow(id, op, row)
	case tablePort:
		s.portRow(id, op, row)
	case tableDNS:
		s.dnsRow(id, op, row)
	case tableFlow:
		s.flowRow(id, op, row)
	}
}

// sweep removes what a new connection has not brought again.
func (s *southbound) sweep() {
	for id, r := range s.chassis {
		if r.seen != s.generation {
			s.chassisRow(id, ovsdb.Delete, nil)
		}
	}
	for id, r := range s.ports {
		if r.seen != s.generation {
			s.portRow(id, ovsdb.Delete, nil)
		}
	}
	for id, r := range s.dns {
		if r.seen != s.generation {
			s.dnsRow(id, ovsdb.Delete, nil)
		}
	}
	for id, r := range s.datapaths {
		if r.seen != s.generation {
			s.datapathRow(id, ovsdb.Delete, nil)
		}
	}
	for id, r := range s.flows {
		if r.seen != s.generation {
			s.flowRow(id, ovsdb.Delete, nil)
		}
	}
}

func (s *southbound) chassisRow(id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	if op == ovsdb.Delete {
		delete(s.chassis, id)
	} else {
		c := s.chassis[id]
		if c == nil {
			c = &chassis{}
			s.chassis[id] = c
		}
		c.seen = s.generation
		if op == ovsdb.Insert || row.Has(chassisName) {
			c.name = row.String(chassisName)
		}
	}
	s.locate()
}

func (s *southbound) datapathRow(id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	old := s.datapaths[id]
	if op == ovsdb.Delete {
		if old != nil {
			s.unlinkDatapath(old)
			delete(s.datapaths, id)
		}
		return
	}
	next := datapath{id: id}
	if old != nil && op == ovsdb.Modify {
		next = *old
	}
	next.seen = s.generation
	if op == ovsdb.Insert || row.Has(datapathKey) {
		next.key = uint32(row.Int(datapathKey))
	}
	next.name = patchKey(row, datapathIDs, "name", next.name)
	next.legacy = patchKey(row, datapathIDs, "logical-switch", next.legacy)
	if row.Has(datapathNBUUID) {
		next.nbUUID = row.UUID(datapathNBUUID)
	}
	if row.Has(datapathType) {
		next.kind = row.String(datapathType)
	}
	next.logical = next.network()
	if old != nil {
		was := *old
		if was.seen = next.seen; was == next {
			old.seen = next.seen
			return
		}
		s.unlinkDatapath(old)
	}
	s.datapaths[id] = &next
	s.linkDatapath(&next)
}

// network is the Logical_Switch of a datapath, zero for a router.
func (d *datapath) network() origin.Network {
	if d.kind == "logical-switch" && d.nbUUID != (ovsdb.UUID{}) {
		return origin.Network(d.nbUUID)
	}
	if id, err := ovsdb.ParseUUID(d.legacy); err == nil {
		return origin.Network(id)
	}
	return origin.Network{}
}

func (s *southbound) linkDatapath(d *datapath) {
	s.world.groups.touch(d.id)
	if d.logical.IsZero() {
		return
	}
	link(s.networks, d.logical, d.id, d)
	s.world.mark(d.logical, true)
	s.world.want = true
}

func (s *southbound) unlinkDatapath(d *datapath) {
	s.world.groups.touch(d.id)
	if d.logical.IsZero() {
		return
	}
	unlink(s.networks, d.logical, d.id)
	// Another datapath of the same switch is another set of conditions.
	delete(s.world.whole, d.logical)
	s.world.mark(d.logical, true)
	s.world.want = true
}

func (s *southbound) markDatapath(id ovsdb.UUID, withPorts bool) {
	// One that is not known yet is marked when it comes.
	if d := s.datapaths[id]; d != nil && !d.logical.IsZero() {
		s.world.mark(d.logical, withPorts)
	}
}

func (s *southbound) portRow(id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	old := s.ports[id]
	if op == ovsdb.Delete {
		if old != nil {
			s.unlinkPort(id, old)
			delete(s.ports, id)
		}
		return
	}
	var next binding
	if old != nil && op == ovsdb.Modify {
		next = *old
	}
	was := next
	next.seen = s.generation
	all := op == ovsdb.Insert
	if all || row.Has(portName) {
		next.name = row.String(portName)
	}
	if all || row.Has(portDatapath) {
		next.datapath = row.UUID(portDatapath)
	}
	if all || row.Has(portKey) {
		next.key = uint32(row.Int(portKey))
	}
	if all || row.Has(portType) {
		next.kind = row.String(portType)
	}
	if all || row.Has(portParent) {
		next.parent = row.String(portParent)
	}
	if all || row.Has(portTag) {
		next.tag = uint16(row.Int(portTag))
	}
	if all || row.Has(portChassis) {
		next.chassis = row.UUID(portChassis)
	}
	next.hostname = patchKey(row, portOptions, "hostname", next.hostname)
	next.peer = patchKey(row, portOptions, "peer", next.peer)
	next.mac = row.PatchStrings(portMAC, next.mac)

	if old != nil && next.equals(old) {
		old.seen = next.seen
		return
	}
	bad := s.world.reporter(Southbound, tablePort, id)
	if next.hostname != was.hostname {
		next.canonical = parseHostname(next.hostname, bad)
	}
	if !slices.Equal(next.mac, was.mac) {
		next.addresses = parsePortAddresses(next.mac, bad)
	}
	if old != nil {
		s.unlinkPort(id, old)
	}
	s.ports[id] = &next
	s.linkPort(id, &next)
}

// equals compares what stands in the row.
func (p *binding) equals(o *binding) bool {
	return p.name == o.name && p.kind == o.kind && p.datapath == o.datapath && p.chassis == o.chassis &&
		p.key == o.key && p.tag == o.tag && p.parent == o.parent && p.hostname == o.hostname &&
		p.peer == o.peer && slices.Equal(p.mac, o.mac)
}

func (s *southbound) linkPort(id ovsdb.UUID, p *binding) {
	link(s.portsOf, p.datapath, id, p)
	s.linkPeer(id, p)
	s.touchPort(p)
}

func (s *southbound) unlinkPort(id ovsdb.UUID, p *binding) {
	unlink(s.portsOf, p.datapath, id)
	s.unlinkPeer(id, p)
	s.touchPort(p)
}

func (s *southbound) touchPort(p *binding) {
	s.markDatapath(p.datapath, true)
	if s.isHere(p) {
		s.world.want = true
	}
}

func (s *southbound) dnsRow(id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	r := s.dns[id]
	if op == ovsdb.Delete {
		if r != nil {
			s.world.dropDNS(r)
			s.relinkDNS(r, nil)
			delete(s.dns, id)
		}
		return
	}
	if r == nil {
		r = &dnsRow{id: id}
		s.dns[id] = r
	}
	r.seen = s.generation
	bad := s.world.reporter(Southbound, tableDNS, id)
	if s.world.patchDNS(r, op, row, dnsRecords, dnsOptions, bad) {
		for _, dp := range r.datapaths {
			s.markDatapath(dp, false)
		}
	}
	datapaths := row.PatchUUIDs(dnsDatapaths, r.datapaths)
	if op == ovsdb.Insert && !row.Has(dnsDatapaths) {
		datapaths = nil
	}
	if !slices.Equal(datapaths, r.datapaths) {
		s.relinkDNS(r, datapaths)
	}
}

func (s *southbound) relinkDNS(r *dnsRow, datapaths []ovsdb.UUID) {
	for _, dp := range r.datapaths {
		unlink(s.dnsOf, dp, r.id)
		s.markDatapath(dp, false)
	}
	r.datapaths = datapaths
	for _, dp := range datapaths {
		link(s.dnsOf, dp, r.id, r)
		s.markDatapath(dp, false)
	}
}

func (s *southbound) flowRow(id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	s.world.stale = true
	if op == ovsdb.Delete {
		delete(s.flows, id)
		return
	}
	f := s.flows[id]
	if f == nil {
		f = &flow{}
		s.flows[id] = f
	}
	f.seen = s.generation
	if op == ovsdb.Insert || row.Has(flowPipeline) {
		f.ingress = string(row.Bytes(flowPipeline)) == "ingress"
	}
	if op == ovsdb.Insert || row.Has(flowTable) {
		f.table = int(row.Int(flowTable))
	}
}

// dnsStage is where most of the stage's flows say it is: all of them do, but
// for what northd may leave for a moment.
func (s *southbound) dnsStage() stage {
	cookies := make(map[int][]uint32)
	for id, f := range s.flows {
		if f.ingress {
			cookies[f.table] = append(cookies[f.table], binary.BigEndian.Uint32(id[:4]))
		}
	}
	if len(cookies) == 0 {
		return stage{}
	}
	best := slices.MaxFunc(slices.Collect(maps.Keys(cookies)), func(a, b int) int {
		return cmp.Or(cmp.Compare(len(cookies[a]), len(cookies[b])), cmp.Compare(b, a))
	})
	slices.Sort(cookies[best])
	return stage{table: best, cookies: slices.Compact(cookies[best])}
}

// describeSouthbound fills in what Datapath_Binding says of a network, and
// gives its DNS rows. It is false if there is no such network.
func (w *world) describeSouthbound(n *Network) ([]*dnsRow, bool) {
	var rows []*dnsRow
	var first *datapath
	for id, d := range w.sb.networks[n.ID] {
		if first == nil || id.Compare(first.id) < 0 {
			first = d
		}
		rows = slices.AppendSeq(rows, maps.Values(w.sb.dnsOf[id]))
	}
	if first == nil {
		return nil, false
	}
	n.Name = first.name
	return rows, true
}

// addSouthboundPorts adds the ports of a network. What Northbound says of a
// port completes what Southbound does.
func (w *world) addSouthboundPorts(b *portsBuilder) {
	for id, d := range w.sb.networks[b.network.ID] {
		b.out.datapaths = append(b.out.datapaths, d.key)
		for _, p := range w.sb.portsOf[id] {
			l := logicalPort{
				name: p.name, kind: p.kind, datapath: d.key, key: p.key, parent: p.parent, tag: p.tag,
				hostname: p.canonical, domain: b.network.Domain, addresses: p.addresses.fixed, local: w.sb.isHere(p),
			}
			if w.nb != nil {
				w.nb.complete(b.network.ID, &l)
			}
			b.add(l)
		}
	}
	slices.Sort(b.out.datapaths)
}

func link[A, B comparable, V any](index map[A]map[B]V, a A, b B, v V) {
	if index[a] == nil {
		index[a] = make(map[B]V)
	}
	index[a][b] = v
}

func unlink[A, B comparable, V any](index map[A]map[B]V, a A, b B) {
	if delete(index[a], b); len(index[a]) == 0 {
		delete(index, a)
	}
}
