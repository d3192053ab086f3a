// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"slices"
	"time"

	"github.com/puntdns/puntdns/ofpunt/placement"
)

// Want is what should be installed in a switch. It is immutable, its slices included, once it
// was handed over.
type Want struct {
	// Unready is why no flow can be placed yet, empty if flows can be placed. Installed flows stay.
	Unready string
	// Settled is set if Guests has every guest of this node. Until then a new connection
	// places nothing, and no flow is removed.
	Settled bool
	// Unsettled says why it is not set, empty if the databases are still being read.
	Unsettled string
	// Unsynced is set while the databases have never been read: where the DNS stage is
	// not known then, that is why.
	Unsynced bool

	// Kind is the pipeline that the flows are installed in. Stage is where OVN has its DNS;
	// Table and Priority are of the entry flows of other pipelines.
	Kind     placement.Kind
	Stage    Stage
	Table    uint8
	Priority uint16
	// Service says which packets are punted and how. The machine sets its Cookie.
	Service placement.Service
	Guests  []Guest
	// Limited is set if guests can have a Limit: then a switch without meters is
	// reported.
	Limited bool
	// Heartbeat is the time between two beats, a third of the lease.
	Heartbeat time.Duration
}

// Stage is the stage ls_in_dns_lookup of OVN's logical pipeline in the Southbound database. The switch shows
// in which OpenFlow table it is.
type Stage struct {
	// TableID is Logical_Flow.table_id.
	TableID int
	// Cookies are the cookies of the flows of the stage, sorted: the first 32 bits of the UUIDs of its
	// Logical_Flow rows (ovn-architecture(7)). There are none if the database knows no such flow.
	Cookies []uint32
}

// Guest is a port whose DNS packets are punted.
type Guest struct {
	placement.Guest
	// Limit is on the packets that the guest sends.
	Limit Limit
}

// Limit is what the switch lets through of one guest. The zero value is no limit.
type Limit struct {
	Rate  uint32 // packets per second
	Burst uint32 // packets at once
	// Name is what drops are reported by, empty for no name.
	Name string
}

func (g *Guest) equal(o *Guest) bool {
	return g.Limit == o.Limit && g.Guest.Equal(&o.Guest)
}

// sameGuests reports whether two lists have the same guests in the same order. It costs
// nothing where they are one list.
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
		a.ControllerID == b.ControllerID && a.Lease == b.Lease && a.Cookie == b.Cookie
}
