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

// StageName is the stage of OVN's own DNS in the ingress pipeline.
const StageName = "ls_in_dns_lookup"

// Flow is a row of Logical_Flow in the DNS stage.
type Flow struct {
	Ingress bool
	table   int    // Logical_Flow.table_id
	Meter   string // of control plane protection, "" for none
	stage   string // external_ids:stage-name, for the conditions
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

// DNSStage returns the table with most flows of the stage. All flows have the same table, except while northd
// moves the stage.
func (s *Southbound) DNSStage() ovn.Stage {
	if v := s.Flows.Version(); v != s.stageVersion {
		s.stage, s.stageVersion = s.findStage(), v
	}
	return s.stage
}

func (s *Southbound) findStage() ovn.Stage {
	cookies := make(map[int][]uint32)
	for id, f := range s.Flows.All() {
		if f.Ingress {
			cookies[f.table] = append(cookies[f.table], binary.BigEndian.Uint32(id[:4]))
		}
	}
	if len(cookies) == 0 {
		return ovn.Stage{}
	}
	best := slices.MaxFunc(slices.Collect(maps.Keys(cookies)), func(a, b int) int {
		return cmp.Or(cmp.Compare(len(cookies[a]), len(cookies[b])), cmp.Compare(b, a))
	})
	slices.Sort(cookies[best])
	return ovn.Stage{Table: best, Cookies: slices.Compact(cookies[best])}
}
