// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// The tables of ovn-sb(5) that lead from a flow of the DNS stage to the rate of its
// meter.
const (
	tableGroup = "Logical_DP_Group"
	tableMeter = "Meter"
	tableBand  = "Meter_Band"
)

// copp is the meters of the DNS stage. Only rows that flows of the stage refer to are read.
type copp struct {
	problems // of meters
	groups   *rows.Table[datapathGroup]
	meters   *rows.Table[meter]
	bands    *rows.Table[meterBand]
	// limits has the meter of each datapath that has one.
	limits map[ovsdb.UUID]Meter
	// versions are those of the tables that limits are made of.
	versions [4]uint64
}

// datapathGroup is a row of Logical_DP_Group.
type datapathGroup struct {
	datapaths []ovsdb.UUID
}

// meter is a row of Meter.
type meter struct {
	name, unit string
	bands      []ovsdb.UUID
}

// meterBand is a row of Meter_Band.
type meterBand struct {
	rate  int64 // in the unit of the meter
	burst int64
}

func newCoPP(s *southbound) copp {
	none := []ovsdb.Condition{}
	// The tables came with OVN 20.12.
	return copp{
		groups: rows.NewTable(tableGroup, none, func(ovsdb.UUID, *datapathGroup, *datapathGroup) {},
			rows.UUIDs("datapaths", func(g *datapathGroup) *[]ovsdb.UUID { return &g.datapaths })).Optional(),
		meters: rows.NewTable(tableMeter, none, func(ovsdb.UUID, *meter, *meter) { s.changes.interest = true },
			rows.String("name", func(m *meter) *string { return &m.name }),
			rows.String("unit", func(m *meter) *string { return &m.unit }),
			rows.UUIDs("bands", func(m *meter) *[]ovsdb.UUID { return &m.bands })).Optional(),
		bands: rows.NewTable(tableBand, none, func(ovsdb.UUID, *meterBand, *meterBand) {},
			rows.Integer("rate", func(b *meterBand) *int64 { return &b.rate }),
			rows.Integer("burst_size", func(b *meterBand) *int64 { return &b.burst })).Optional(),
	}
}

// isMetered reports whether the flow limits DNS packets of guests by a meter.
func (f *flow) isMetered() bool { return f.ingress && f.meter != "" }

// updateCoPP reads the meters. It is called once all rows that are asked for have come.
func (s *southbound) updateCoPP() {
	versions := [4]uint64{s.flows.Version(), s.copp.groups.Version(), s.copp.meters.Version(), s.copp.bands.Version()}
	if versions == s.copp.versions {
		return
	}
	before := s.copp.limits
	s.copp.versions, s.copp.limits = versions, s.readCoPP()
	s.changes.problem(badRow{database: southboundName, table: tableMeter}, &s.copp.problems)
	for _, pair := range [][2]map[ovsdb.UUID]Meter{{before, s.copp.limits}, {s.copp.limits, before}} {
		for dp, m := range pair[0] {
			if other, ok := pair[1][dp]; !ok || other != m {
				s.markDatapath(dp, partNames)
			}
		}
	}
}

// readCoPP returns the meter of each datapath that has one. While northd replaces a
// flow, two may be of one datapath: the stricter one counts.
func (s *southbound) readCoPP() map[ovsdb.UUID]Meter {
	bad := s.copp.replace("unit")
	byName := make(map[string]Meter, s.copp.meters.Len())
	for _, f := range s.flows.All() {
		if f.isMetered() {
			byName[f.meter] = Meter{}
		}
	}
	for id, m := range s.copp.meters.All() {
		if _, used := byName[m.name]; !used {
			continue
		}
		if limit, ok := s.readMeter(id, m, bad); ok {
			byName[m.name] = limit
		}
	}
	limits := make(map[ovsdb.UUID]Meter)
	for _, f := range s.flows.All() {
		limit := byName[f.meter]
		if limit == (Meter{}) || !f.isMetered() {
			continue
		}
		all := []ovsdb.UUID{f.datapath}
		if g := s.copp.groups.Get(f.group); g != nil {
			all = append(all, g.datapaths...)
		}
		for _, dp := range all {
			if had, ok := limits[dp]; !ok || compareMeters(limit, had) < 0 {
				limits[dp] = limit
			}
		}
	}
	delete(limits, ovsdb.UUID{}) // a flow of a group names no datapath itself
	return limits
}

// readMeter returns the band of a meter that drops first, and reports whether there is
// one.
func (s *southbound) readMeter(id ovsdb.UUID, m *meter, bad *problemEditor) (limit Meter, ok bool) {
	if m.unit != "pktps" {
		bad.begin(id.String())
		bad.add(fmt.Sprintf("%s: Meter %s: %.80q is in %.80q and no packet rate: it sets no rate for DNS packets here", southboundName, id, m.name, m.unit))
		return Meter{}, false
	}
	for _, id := range m.bands {
		b := s.copp.bands.Get(id)
		if b == nil || b.rate < 1 {
			continue
		}
		// The schema keeps both within 32 bits.
		band := Meter{Rate: uint32(min(b.rate, math.MaxUint32)), Burst: uint32(max(0, min(b.burst, math.MaxUint32)))}
		if !ok || compareMeters(band, limit) < 0 {
			limit, ok = band, true
		}
	}
	return limit, ok
}

func compareMeters(a, b Meter) int {
	return cmp.Or(cmp.Compare(a.Rate, b.Rate), cmp.Compare(a.Burst, b.Burst))
}

// meterOf is the meter of a network, zero without one.
func (s *southbound) meterOf(id origin.Network) Meter {
	for _, dp := range slices.SortedFunc(maps.Keys(s.networks[id]), ovsdb.UUID.Compare) {
		if m, ok := s.copp.limits[dp]; ok {
			return m
		}
	}
	return Meter{}
}
