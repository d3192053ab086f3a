// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// firstIngressTable is OFTABLE_LOG_INGRESS_PIPELINE of OVN's lib/lflow.h.
const firstIngressTable = 8

// FlowQueries returns the queries for the rows of a flow's switch and of datapath groups: no condition of
// OVSDB selects by the first bits of a UUID.
func (s *Southbound) FlowQueries(k ovn.FlowKey) (queries []ovsdb.Query) {
	of := func(datapaths ...ovsdb.UUID) ovsdb.Query {
		return ovsdb.Query{
			Table: TableFlow, Columns: []string{"_uuid", "external_ids", "match", "actions"},
			Where: []ovsdb.Condition{
				{Column: "pipeline", Function: "==", Value: "ingress"},
				{Column: "table_id", Function: "==", Value: k.Table - firstIngressTable},
				{Column: "priority", Function: "==", Value: k.Priority},
				{Column: "logical_datapath", Function: "==", Value: datapaths},
			},
		}
	}
	datapaths := slices.SortedFunc(maps.Keys(s.Networks[k.Network]), ovsdb.UUID.Compare)
	if len(datapaths) == 0 {
		return nil
	}
	for _, id := range datapaths {
		queries = append(queries, of(id))
	}
	return append(queries, of())
}

// ParseFlow finds a cookie in the results of [Southbound.FlowQueries]. found is false if ovn-northd has
// replaced the row meanwhile.
func ParseFlow(results []json.RawMessage, cookie uint32) (f ovn.LogicalFlow, found bool, err error) {
	for _, text := range results {
		var all []struct {
			UUID           [2]string       `json:"_uuid"`
			IDs            ovsdb.StringMap `json:"external_ids"`
			Match, Actions string
		}
		if err := json.Unmarshal(text, &all); err != nil {
			return f, false, fmt.Errorf("rows of %s: %w", TableFlow, err)
		}
		for i := range all {
			r := &all[i]
			id, err := ovsdb.ParseUUID(r.UUID[1])
			if err != nil {
				return f, false, fmt.Errorf("rows of %s: %w", TableFlow, err)
			}
			if binary.BigEndian.Uint32(id[:4]) == cookie {
				return ovn.LogicalFlow{Row: id, Stage: r.IDs["stage-name"], Hint: r.IDs["stage-hint"], Match: r.Match, Actions: r.Actions}, true, nil
			}
		}
	}
	return f, false, nil
}
