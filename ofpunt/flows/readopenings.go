// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"context"
	"time"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// Opened is an opening that the switch has.
type Opened struct {
	placement.Opening
	Names []string
	// Age is the time since it was opened, or its timeout restarted.
	Age time.Duration
	// Idle is the time since the last packet, Age without a packet, -1 with OpenFlow 1.3, which does not report it.
	Idle    time.Duration
	Timeout time.Duration
	Packets uint64
}

// ReadOpenings reads the openings of all guests from the switch.
func ReadOpenings(ctx context.Context, sw Switch) ([]Opened, error) {
	flows, err := sw.FlowStats(ctx, openflow.FlowStatsRequest{Table: placement.EgressTable, Cookie: cookieOf(openingGeneration), CookieMask: exactMask})
	if err != nil {
		return nil, err
	}
	all := make([]Opened, 0, len(flows))
	for i := range flows {
		f := &flows[i]
		if o, ok := placement.ReadOpening(f.Table, f.Priority, f.Match); ok {
			all = append(all, Opened{o, placement.NamesOf(f.Instructions), f.Duration, f.Idle, time.Duration(f.IdleTimeout) * time.Second, f.Packets})
		}
	}
	return all, nil
}
