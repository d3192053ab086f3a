// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// stageName is the stage of OVN's own DNS in the ingress pipeline.
const stageName = "ls_in_dns_lookup"

// flow is a row of Logical_Flow, of the stage of OVN's own DNS.
type flow struct {
	ingress bool
	table   int    // Logical_Flow.table_id
	meter   string // of control plane protection, "" without
	stage   string // external_ids:stage-name, which conditions are on
	// The flow is of one datapath or of a group of datapaths. The other one is zero.
	datapath, group ovsdb.UUID
}

func flowColumns() []rows.Column[flow] {
	return []rows.Column[flow]{
		rows.Custom("pipeline", func(_ ovsdb.UUID, f *flow, row *ovsdb.Row, col int) bool {
			was := f.ingress
			f.ingress = string(row.Bytes(col)) == "ingress"
			return f.ingress != was
		}),
		rows.Integer("table_id", func(f *flow) *int { return &f.table }),
		rows.String("controller_meter", func(f *flow) *string { return &f.meter }).Optional(), // from OVN 21.09 on
		rows.Key("external_ids", "stage-name", func(f *flow) *string { return &f.stage }),
		rows.UUID("logical_datapath", func(f *flow) *ovsdb.UUID { return &f.datapath }).Optional(),
		rows.UUID("logical_dp_group", func(f *flow) *ovsdb.UUID { return &f.group }).Optional(), // from OVN 21.03 on
	}
}

func (s *southbound) flowChanged(ovsdb.UUID, *flow, *flow) {
	s.changes.interest = true
}

// dnsStage returns the table of most of the stage's flows. All of them have the same one,
// except while northd moves the stage.
func (s *southbound) dnsStage() stage {
	if v := s.flows.Version(); v != s.stageVersion {
		s.stage, s.stageVersion = s.findStage(), v
	}
	return s.stage
}

func (s *southbound) findStage() stage {
	cookies := make(map[int][]uint32)
	for id, f := range s.flows.All() {
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
