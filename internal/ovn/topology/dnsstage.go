// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// StatefulStage is the last stage before connection tracking, load balancers and ACLs.
const (
	StageName     = "ls_in_dns_lookup"
	StatefulStage = "ls_in_pre_stateful"
)

// Flow is a row of Logical_Flow in one of the stages.
type Flow struct {
	Ingress bool
	table   int
	Meter   string
	stage   string
	// A flow has either a datapath or a group of datapaths.
	datapath, Group ovsdb.UUID
}

func flowColumns() []rows.Column[Flow] {
	return []rows.Column[Flow]{
		rows.Custom("pipeline", func(_ ovsdb.UUID, f *Flow, row *ovsdb.Row, col int) bool {
			was := f.Ingress
			f.Ingress = string(row.Bytes(col)) == "ingress"
			return f.Ingress != was
		}),
		rows.Integer("table_id", func(f *Flow) *int { return &f.table }),
		rows.String("controller_meter", func(f *Flow) *string { return &f.Meter }).Optional(), // from OVN 21.09 on
		rows.Key("external_ids", "stage-name", func(f *Flow) *string { return &f.stage }),
		rows.UUID("logical_datapath", func(f *Flow) *ovsdb.UUID { return &f.datapath }).Optional(),
		rows.UUID("logical_dp_group", func(f *Flow) *ovsdb.UUID { return &f.Group }).Optional(), // from OVN 21.03 on
	}
}

func (s *Southbound) flowChanged(ovsdb.UUID, *Flow, *Flow) {
	s.Changes.Interest = true
}

// DNSStage returns the table with most flows: while northd moves the stage, it has several tables.
func (s *Southbound) DNSStage() ovn.Stage {
	if v := s.Flows.Version(); v != s.stageVersion {
		s.stage, s.stageVersion = s.findStage(), v
	}
	return s.stage
}

func (s *Southbound) findStage() ovn.Stage {
	cookies, stateful := make(map[int][]uint32), map[int]int{}
	for id, f := range s.Flows.All() {
		if f.Ingress && f.stage == StatefulStage {
			stateful[f.table]++
		} else if f.Ingress {
			cookies[f.table] = append(cookies[f.table], binary.BigEndian.Uint32(id[:4]))
		}
	}
	of := ovn.Stage{Stateful: mostOften(stateful)}
	if len(cookies) == 0 {
		return of
	}
	best := slices.MaxFunc(slices.Collect(maps.Keys(cookies)), func(a, b int) int {
		return cmp.Or(cmp.Compare(len(cookies[a]), len(cookies[b])), cmp.Compare(b, a))
	})
	slices.Sort(cookies[best])
	of.Table, of.Cookies = best, slices.Compact(cookies[best])
	return of
}

func mostOften(count map[int]int) (table int) {
	for t, n := range count {
		if best := count[table]; n > best || n == best && t < table {
			table = t
		}
	}
	return table
}
