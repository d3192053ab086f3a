// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"slices"
	"time"

	"github.com/puntdns/puntdns/ofpunt/placement"
)

// Want is what a switch should have. It is immutable after handover, slices included.
type Want struct {
	// Unready says why no flow can be placed yet. Installed flows stay.
	Unready string
	// Settled is set if Guests has all guests of this node. Until then a new connection places nothing, and nothing
	// is removed.
	Settled bool
	// Unsettled says why Settled is unset, empty while the databases are being read.
	Unsettled string
	// Unsynced is set until the databases are first read. It explains an unknown DNS stage.
	Unsynced bool

	// Stage is for OVN. Table and Priority are for the entry flows of other pipelines.
	Kind     placement.Kind
	Stage    Stage
	Table    uint8
	Priority uint16
	// Service needs no Cookie: the machine sets it.
	Service placement.Service
	Guests  []Guest
	// MaxOpenings bounds a guest's openings, MaxNetworkOpenings a logical switch's. Unused openings last OpeningGrace
	// longer than the answer asks.
	MaxOpenings, MaxNetworkOpenings int
	OpeningGrace                    time.Duration
	// Limited is set if guests can have a Limit: then a lack of meters is reported.
	Limited bool
	// Heartbeat is the interval of heartbeats, a third of the lease.
	Heartbeat time.Duration
}

// Stage is ls_in_dns_lookup in the Southbound database.
type Stage struct {
	TableID int
	// Cookies are the first 32 bits of the UUIDs of the stage's Logical_Flow rows (ovn-architecture(7)), sorted.
	Cookies []uint32
	// StatefulID is the table_id of ls_in_pre_stateful, 0 if unknown.
	StatefulID int
}

// Guest is a port whose DNS packets are punted.
type Guest struct {
	placement.Guest
	Limit Limit
}

// Limit is what the switch accepts from one guest, zero for no limit.
type Limit struct {
	Rate  uint32 // packets per second
	Burst uint32 // packets at once
	// Name labels drops, empty for none.
	Name string
}

func (g *Guest) equal(o *Guest) bool {
	return g.Limit == o.Limit && g.Guest.Equal(&o.Guest)
}

// sameGuests costs nothing for one list.
func sameGuests(a, b []Guest) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) == 0 || &a[0] == &b[0] {
		return true
	}
	for i := range a {
		if !a[i].equal(&b[i]) {
			return false
		}
	}
	return true
}

func sameService(a, b *placement.Service) bool {
	return slices.Equal(a.Addresses, b.Addresses) && a.Hijack == b.Hijack && a.Neighbors == b.Neighbors && a.Resumable == b.Resumable &&
		a.ControllerID == b.ControllerID && a.Lease == b.Lease && a.Cookie == b.Cookie && a.EgressBit == b.EgressBit
}
