// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/problem"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

const (
	TableGroup = "Logical_DP_Group"
	TableMeter = "Meter"
	TableBand  = "Meter_Band"
)

// copp is the meters of the DNS stage. Only rows that flows of the stage refer to are read.
type copp struct {
	problem.Set
	Groups   *rows.Table[datapathGroup]
	Meters   *rows.Table[Meter]
	Bands    *rows.Table[meterBand]
	limits   map[ovsdb.UUID]ovn.Meter
	versions [4]uint64
}

type datapathGroup struct {
	datapaths []ovsdb.UUID
}

type Meter struct {
	Name, unit string
	Bands      []ovsdb.UUID
}

type meterBand struct {
	rate  int64 // in the unit of the meter
	burst int64
}

func newCoPP(s *Southbound) copp {
	none := []ovsdb.Condition{}
	// OVN has the tables from 20.12 on.
	return copp{
		Groups: rows.NewTable(TableGroup, none, func(ovsdb.UUID, *datapathGroup, *datapathGroup) {},
			rows.UUIDs("datapaths", func(g *datapathGroup) *[]ovsdb.UUID { return &g.datapaths })).Optional(),
		Meters: rows.NewTable(TableMeter, none, func(ovsdb.UUID, *Meter, *Meter) { s.Changes.Interest = true },
			rows.String("name", func(m *Meter) *string { return &m.Name }),
			rows.String("unit", func(m *Meter) *string { return &m.unit }),
			rows.UUIDs("bands", func(m *Meter) *[]ovsdb.UUID { return &m.Bands })).Optional(),
		Bands: rows.NewTable(TableBand, none, func(ovsdb.UUID, *meterBand, *meterBand) {},
			rows.Integer("rate", func(b *meterBand) *int64 { return &b.rate }),
			rows.Integer("burst_size", func(b *meterBand) *int64 { return &b.burst })).Optional(),
	}
}

func (f *Flow) IsMetered() bool { return f.Ingress && f.Meter != "" }

// UpdateCoPP must run once all wanted rows have come.
func (s *Southbound) UpdateCoPP() {
	versions := [4]uint64{s.Flows.Version(), s.CoPP.Groups.Version(), s.CoPP.Meters.Version(), s.CoPP.Bands.Version()}
	if versions == s.CoPP.versions {
		return
	}
	before := s.CoPP.limits
	s.CoPP.versions, s.CoPP.limits = versions, s.readCoPP()
	s.Changes.problem(problem.Row{Database: SouthboundName, Table: TableMeter}, &s.CoPP.Set)
	for _, pair := range [][2]map[ovsdb.UUID]ovn.Meter{{before, s.CoPP.limits}, {s.CoPP.limits, before}} {
		for dp, m := range pair[0] {
			if other, ok := pair[1][dp]; !ok || other != m {
				s.markDatapath(dp, PartNames)
			}
		}
	}
}

// While northd replaces a flow a datapath may have two meters; the stricter meter counts.
func (s *Southbound) readCoPP() map[ovsdb.UUID]ovn.Meter {
	bad := s.CoPP.Replace("unit")
	byName := make(map[string]ovn.Meter, s.CoPP.Meters.Len())
	for _, f := range s.Flows.All() {
		if f.IsMetered() {
			byName[f.Meter] = ovn.Meter{}
		}
	}
	for id, m := range s.CoPP.Meters.All() {
		if _, used := byName[m.Name]; !used {
			continue
		}
		if limit, ok := s.readMeter(id, m, bad); ok {
			byName[m.Name] = limit
		}
	}
	limits := make(map[ovsdb.UUID]ovn.Meter)
	for _, f := range s.Flows.All() {
		limit := byName[f.Meter]
		if limit == (ovn.Meter{}) || !f.IsMetered() {
			continue
		}
		all := []ovsdb.UUID{f.datapath}
		if g := s.CoPP.Groups.Get(f.Group); g != nil {
			all = append(all, g.datapaths...)
		}
		for _, dp := range all {
			if had, ok := limits[dp]; !ok || compareMeters(limit, had) < 0 {
				limits[dp] = limit
			}
		}
	}
	delete(limits, ovsdb.UUID{})
	return limits
}

func (s *Southbound) readMeter(id ovsdb.UUID, m *Meter, bad *problem.Editor) (limit ovn.Meter, ok bool) {
	if m.unit != "pktps" {
		bad.Begin(id.String())
		bad.Add(fmt.Sprintf("%s: Meter %.80q is in %.80q and no packet rate: it sets no rate for DNS packets here", NorthboundName, m.Name, m.unit))
		return ovn.Meter{}, false
	}
	for _, id := range m.Bands {
		b := s.CoPP.Bands.Get(id)
		if b == nil || b.rate < 1 {
			continue
		}
		band := ovn.Meter{Rate: uint32(min(b.rate, math.MaxUint32)), Burst: uint32(max(0, min(b.burst, math.MaxUint32)))}
		if !ok || compareMeters(band, limit) < 0 {
			limit, ok = band, true
		}
	}
	return limit, ok
}

func compareMeters(a, b ovn.Meter) int {
	return cmp.Or(cmp.Compare(a.Rate, b.Rate), cmp.Compare(a.Burst, b.Burst))
}

func (s *Southbound) MeterOf(id origin.Network) ovn.Meter {
	for _, dp := range slices.SortedFunc(maps.Keys(s.Networks[id]), ovsdb.UUID.Compare) {
		if m, ok := s.CoPP.limits[dp]; ok {
			return m
		}
	}
	return ovn.Meter{}
}
