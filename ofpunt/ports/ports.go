// SPDX-License-Identifier: Apache-2.0

// Package ports maps the OpenFlow ports of a bridge to their present owners, interfaces of the local Open_vSwitch database.
// It knows neither guests nor networks.
//
// Port numbers are reused. The switch and the database report a deleted port, and the new port with its number, at
// different times, and packets of the deleted port may still be in flight. So a number has an owner
//
//   - until the switch deletes the port ([Owners.Deleted]), even if the database still lists it,
//   - for a packet-in of a pipeline without logical ports, after the switch has handed over all packets from before the
//     change in the database ([View.SetDrained]).
//
// An answer is dropped if its port has moved to another owner meanwhile ([Owners.Moved]).
//
//	local database ──Set──► View ◄──Owner, DrainedOwner, Moved── packet-ins, answers
//	switch ──────Deleted──► gone ◄──┘
//
// The package has no goroutine. Readers take no lock: a View and the map of gone ports are immutable and replaced as a
// whole. Owners.mu serializes writers.
package ports

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/vswitch"
)

// View is a bridge in the local database. It is immutable, except for whether it is drained. Its methods are
// safe for concurrent use.
type View struct {
	vswitch.View
	// Version is 1 for the first view, and increases with each view.
	Version  uint64
	byNumber map[uint32]*vswitch.Interface
	// stayed has the numbers with the same port as in the previous view. Until drained is set, a packet of a previous
	// owner of any other number may be in flight.
	stayed  map[uint32]bool
	drained atomic.Bool
}

// NewView returns the view after before, which is nil for the first view.
func NewView(v vswitch.View, before *View) *View {
	l := &View{View: v, Version: 1, byNumber: make(map[uint32]*vswitch.Interface, len(v.Interfaces)), stayed: make(map[uint32]bool)}
	if before != nil {
		l.Version = before.Version + 1
	}
	for i := range v.Interfaces {
		p := &v.Interfaces[i]
		if p.OFPort == 0 {
			continue
		}
		l.byNumber[p.OFPort] = p
		if before == nil {
			// No flow of ours exists yet.
			l.stayed[p.OFPort] = true
		} else {
			was := before.byNumber[p.OFPort]
			l.stayed[p.OFPort] = was != nil && was.UUID == p.UUID && before.isDrained(p.OFPort)
		}
	}
	return l
}

func (v *View) isDrained(number uint32) bool { return v.drained.Load() || v.stayed[number] }

// SetDrained records that the switch has handed over all packets from before the view.
func (v *View) SetDrained() { v.drained.Store(true) }

// Absent reports whether the database has no such bridge: each bridge has an interface of the same name.
func (v *View) Absent() bool { return len(v.Interfaces) == 0 }

// Interface returns the interface that has an OpenFlow port, nil without one.
func (v *View) Interface(number uint32) *vswitch.Interface { return v.byNumber[number] }

// IfaceIDs returns the logical ports with an interface that has an OpenFlow port: others send no packets.
func (v *View) IfaceIDs() []string {
	var ids []string
	for i := range v.Interfaces {
		if id := v.Interfaces[i].IfaceID; id != "" && v.Interfaces[i].OFPort != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// Owners has the owners of the ports of one bridge. The zero value has none. It is safe for concurrent use.
type Owners struct {
	// view is nil before the database was read.
	view atomic.Pointer[View]
	// gone has the ports that the switch has deleted and the database still has. The map is immutable, nil for none.
	gone atomic.Pointer[map[uint32]tombstone]
	// databaseUp is set while the database is connected and read.
	databaseUp atomic.Bool

	mu sync.Mutex // held by those who write gone or databaseUp
}

// tombstone marks the number of a port that the switch has deleted, until the local database deletes the port too.
type tombstone struct {
	uuid string // of the Interface row that no longer counts
	end  time.Time
}

// tombstoneTime is far more than the delay of the local database. A tombstone may mark the row of a new port of the same
// name, so it must expire.
const tombstoneTime = 3 * time.Second

// View returns the newest view, nil before the first.
func (o *Owners) View() *View { return o.view.Load() }

// Set makes a view the newest.
func (o *Owners) Set(v *View) {
	o.view.Store(v)
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	// A tombstone stays until its end even without its row: a reader may still have the previous view.
	o.prune(func(number uint32, t tombstone) bool {
		i := v.byNumber[number]
		return !now.Before(t.end) && (o.databaseUp.Load() || i == nil || i.UUID != t.uuid)
	})
}

// SetDatabaseUp says whether the database is connected and read from now on. While it is
// not, a tombstone stands for as long as that lasts.
func (o *Owners) SetDatabaseUp(up bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !up && o.databaseUp.Load() {
		// Those whose time is over stand on rows of other ports than the switch deleted.
		now := time.Now()
		o.prune(func(_ uint32, t tombstone) bool { return !now.Before(t.end) })
	}
	o.databaseUp.Store(up)
}

// DatabaseUp reports whether the database is connected and read.
func (o *Owners) DatabaseUp() bool { return o.databaseUp.Load() }

// Deleted says that the switch has deleted a port. Name is cut to 15 bytes, as the switch
// does it.
func (o *Owners) Deleted(number uint32, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	view := o.view.Load()
	if view == nil {
		return
	}
	i := view.byNumber[number]
	if i == nil || i.Name[:min(len(i.Name), 15)] != name {
		return
	}
	next := map[uint32]tombstone{}
	if gone := o.gone.Load(); gone != nil {
		next = maps.Clone(*gone)
	}
	next[number] = tombstone{i.UUID, time.Now().Add(tombstoneTime)}
	o.gone.Store(&next)
}

// prune drops the tombstones of which over reports that their time is over. The caller holds
// mu.
func (o *Owners) prune(over func(uint32, tombstone) bool) {
	gone := o.gone.Load()
	if gone == nil {
		return
	}
	next := maps.Clone(*gone)
	maps.DeleteFunc(next, over)
	if len(next) == 0 {
		o.gone.Store(nil)
	} else if len(next) < len(*gone) {
		o.gone.Store(&next)
	}
}

// Owner returns the interface that has the number. It is nil without one, and if the owner is not known.
func (o *Owners) Owner(number uint32) *vswitch.Interface { return o.owner(o.view.Load(), number) }

// DrainedOwner returns the interface that a packet came in by, nil if that is not known: while
// packets of an earlier owner of the number may be in flight, it is not.
func (o *Owners) DrainedOwner(number uint32) *vswitch.Interface {
	view := o.view.Load()
	if view == nil || !view.isDrained(number) {
		return nil
	}
	return o.owner(view, number)
}

// Moved reports whether the OpenFlow port that a packet came from, when was owned it, has another owner now:
// the answer must not reach the other owner. If was is nil, the sender was not known, and the answer is an
// error: a known owner of the number may not have asked for it.
//
// Moved does not know what the switch and the database have not reported yet. Open vSwitch leaves a number
// unused for an hour, unless an interface requests it (ofproto.c, alloc_ofp_port).
func (o *Owners) Moved(was *vswitch.Interface, number uint32) bool {
	if was == nil {
		return o.DrainedOwner(number) != nil
	}
	i := o.Owner(number)
	return i == nil || i.UUID != was.UUID
}

func (o *Owners) owner(view *View, number uint32) *vswitch.Interface {
	if view == nil {
		return nil
	}
	i := view.byNumber[number]
	gone := o.gone.Load()
	if i == nil || gone == nil {
		return i
	}
	if t, ok := (*gone)[number]; ok && t.uuid == i.UUID && (!o.databaseUp.Load() || time.Now().Before(t.end)) {
		return nil
	}
	return i
}
