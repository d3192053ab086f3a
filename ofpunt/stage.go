// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// ovnIngressTable is the OpenFlow table of ingress stage 0 (OVN's
// lib/lflow.h, OFTABLE_LOG_INGRESS_PIPELINE). It is only a first guess: the
// switch has the last word.
const ovnIngressTable = 8

// stageRetry is how soon to look again for a stage that ovn-controller has not
// installed yet; later looks come more seldom.
const (
	stageRetry    = 50 * time.Millisecond
	stageRetryMax = 500 * time.Millisecond
)

// errStageUnknown: the database or the switch does not tell yet where OVN's DNS
// stage is.
var errStageUnknown = errors.New("OVN's DNS stage is not known yet")

// confirmedStage is where the switch has OVN's DNS stage.
type confirmedStage struct {
	table   uint8
	tableID int
	cookies []uint32
}

// confirmStage finds the OpenFlow table of ls_in_dns_lookup: ovn-controller gives
// a flow the first 32 bits of its logical flow's UUID as the cookie
// (ovn-architecture(7)), so the table where such flows stand is the stage's.
func (s *session) confirmStage(ctx context.Context, snapshot *ovn.Snapshot) (uint8, error) {
	tableID, cookies, ok := snapshot.DNSStage()
	if !ok {
		return 0, fmt.Errorf("%w: the Southbound database has no logical flow of ls_in_dns_lookup", errStageUnknown)
	}
	known := s.stage.table != 0 && s.stage.tableID == tableID
	if known && slices.Equal(s.stage.cookies, cookies) {
		return s.stage.table, nil
	}
	guess := ovnIngressTable + tableID
	for _, c := range cookies {
		stats, err := s.conn.FlowStats(ctx, openflow.FlowStatsRequest{
			Table: openflow.TableAll, Cookie: uint64(c), CookieMask: ^uint64(0),
		})
		if err != nil {
			return 0, fmt.Errorf("looking for OVN's DNS stage: %w", err)
		}
		if len(stats) == 0 {
			continue
		}
		table := stats[0].Table
		if slices.ContainsFunc(stats, func(f openflow.FlowStats) bool { return int(f.Table) == guess }) {
			table = uint8(guess)
		}
		if table < 1 {
			continue // no stage comes before it
		}
		s.stage = confirmedStage{table: table, tableID: tableID, cookies: cookies}
		return table, nil
	}
	if known {
		// The rows are new but the number is not: the switch follows in a moment.
		return s.stage.table, nil
	}
	return 0, fmt.Errorf("%w: no flow of logical table %d stands in the switch", errStageUnknown, tableID)
}
