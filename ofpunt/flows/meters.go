// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// meters are the switch's limits on what guests may send, one meter for each. A limit in
// this process would come too late: the switch has one short queue of packet-ins for all.
//
// The switch looks a meter up when a flow that names it is added (ofproto/ofproto.c,
// ofproto_check_ofpacts), and keeps the flow when the meter is deleted. So meters are added before
// the flows and deleted after them, and after a meter was added its flows are added again.
type meters struct {
	// refused is set where the switch has no meters, or takes none of ours.
	refused bool
	// first and last bound the ids that are puntdns's; both are 0 if refused.
	first, last uint32
	// offset is where this machine begins to take ids. It is random: until a process has seen
	// that it was replaced, it may change the meters of its ids.
	offset uint32
	// known is unset while the meters in the switch are not known.
	known bool
	// version changes with the assignment.
	version uint64
	// installed are the meters of that range in the switch, of any process.
	installed map[uint32]openflow.MeterConfig
	// assigned are the ids of the guests that are limited, and limits what these meters are
	// to let through.
	assigned map[placement.Key]uint32
	limits   map[uint32]Limit
	// unknown is set if the last count was of meters in that range which are not in
	// installed.
	unknown bool
	// dropped is what each meter had dropped when that was last read.
	dropped map[uint32]uint64
}

// maxMeters is how many of the highest ids are puntdns's: others count from 1 up, as
// ovn-controller does.
const maxMeters = 1 << 16

// maxMeterID is the highest id that Open vSwitch takes (OFPM13_MAX). On kernels before
// 5.8 it says that there were more.
const maxMeterID = 0xffff0000

func newMeters(offset uint32) meters {
	return meters{
		offset: offset, installed: map[uint32]openflow.MeterConfig{}, assigned: map[placement.Key]uint32{}, limits: map[uint32]Limit{},
		dropped: map[uint32]uint64{},
	}
}

// load takes in the meters of the switch, and the highest id that it has, 0 if it has no
// meters.
func (m *meters) load(most uint32, all []openflow.MeterConfig) {
	most = min(most, maxMeterID)
	m.first, m.last = max(most/2, most-min(most, maxMeters))+1, most
	if m.refused || most == 0 {
		m.first, m.last = 0, 0
		clear(m.assigned)
		clear(m.limits)
	}
	m.known, m.installed = true, map[uint32]openflow.MeterConfig{}
	m.version++
	for _, c := range all {
		if c.ID >= m.first && c.ID <= m.last {
			m.installed[c.ID] = c
		}
	}
}

// invalidate has the meters read again: another program may have deleted some.
func (m *meters) invalidate() { m.known = false }

// abandon leaves all meters to another process, which may delete them or use their ids.
func (m *meters) abandon() {
	m.invalidate()
	clear(m.assigned)
	clear(m.limits)
	clear(m.dropped)
}

// assign gives each guest with a limit a meter: its meter before, else a free one, else none. It reports
// whether there were enough.
func (m *meters) assign(guests []Guest) (enough bool) {
	before, taken := m.assigned, inUse(m.assigned)
	m.assigned, m.limits = make(map[placement.Key]uint32, len(before)), make(map[uint32]Limit, len(before))
	m.version++
	ids, tried, enough := m.last-m.first+1, uint32(0), true
	for i := range guests {
		g := &guests[i]
		if g.Limit.Rate == 0 || m.last == 0 {
			continue
		}
		id, ok := before[g.Key]
		for ; !ok && tried < ids; tried++ {
			// One that is installed already may be another process's, and flows may still
			// name it.
			next := m.last - (m.offset%ids+tried)%ids
			if _, installed := m.installed[next]; !installed && !taken[next] {
				id, ok = next, true
			}
		}
		if !ok {
			enough = false
			continue
		}
		m.assigned[g.Key], m.limits[id] = id, g.Limit
	}
	return enough
}

// inUse are the ids that guests have.
func inUse(assigned map[placement.Key]uint32) map[uint32]bool {
	all := make(map[uint32]bool, len(assigned))
	for _, id := range assigned {
		all[id] = true
	}
	return all
}

// missing are the changes after which all guests have their meters.
func (m *meters) missing() []openflow.MeterMod {
	var mods []openflow.MeterMod
	for id, l := range m.limits {
		mod := openflow.MeterMod{Command: openflow.Add, ID: id, Rate: l.Rate, Burst: l.Burst}
		switch had, ok := m.installed[id]; {
		case ok && had == configOf(&mod):
			continue
		case ok:
			mod.Command = openflow.Modify
		}
		mods = append(mods, mod)
	}
	return sortMeters(mods)
}

// superfluous are the changes that delete the meters without a guest, also meters of earlier processes. They
// come after the changes of the flows that name the meters.
func (m *meters) superfluous() []openflow.MeterMod {
	var mods []openflow.MeterMod
	used := inUse(m.assigned)
	for id := range m.installed {
		if !used[id] {
			mods = append(mods, openflow.MeterMod{Command: openflow.Delete, ID: id})
		}
	}
	return sortMeters(mods)
}

func sortMeters(mods []openflow.MeterMod) []openflow.MeterMod {
	slices.SortFunc(mods, func(a, b openflow.MeterMod) int { return cmp.Compare(b.ID, a.ID) })
	return mods
}

func configOf(m *openflow.MeterMod) openflow.MeterConfig {
	return openflow.MeterConfig{ID: m.ID, Rate: m.Rate, Burst: m.Burst}
}

// applied takes in changes that the switch has carried out. Guests that had to go without a meter
// may get one of the ids that were deleted.
func (m *meters) applied(mods []openflow.MeterMod) {
	for i := range mods {
		if mod := &mods[i]; mod.Command == openflow.Delete {
			delete(m.installed, mod.ID)
			delete(m.dropped, mod.ID)
			m.version++
		} else {
			m.installed[mod.ID] = configOf(mod)
		}
	}
}

// Names of the errors about a meter that another program has made or deleted.
const (
	meterExists  = "OFPMMFC_METER_EXISTS"
	unknownMeter = "OFPMMFC_UNKNOWN_METER"
)

// blame reports whether the switch has refused a change of meters: then they are read again. A
// meter may be refused for good: then refused is set, and limits are not enforced by this
// connection any more.
func (m *meters) blame(err error) (blamed, refused bool) {
	var e *openflow.SwitchError
	if !errors.As(err, &e) || !strings.HasPrefix(e.Name(), "OFPMMFC_") {
		return false, false
	}
	m.invalidate()
	if n := e.Name(); n == meterExists || n == unknownMeter {
		return true, false
	}
	m.refused = true
	return true, true
}

// count returns how many packets of guests were dropped since the last count. It has the meters
// read again if one is missing.
//
// A process that has not heard yet that it was replaced may make meters after its successor
// has read them. One that is unknown at two beats in a row is no meter of a process that is
// about to take over.
func (m *meters) count(all []openflow.MeterStats) (dropped Dropped) {
	used := make(map[uint32]placement.Key, len(m.assigned))
	for guest, id := range m.assigned {
		used[id] = guest
	}
	before, found := m.unknown, 0
	m.unknown = false
	for _, s := range all {
		if _, ok := m.installed[s.ID]; ok {
			found++
		} else if s.ID >= m.first && s.ID <= m.last {
			m.unknown = true
		}
		guest, ok := used[s.ID]
		if !ok {
			continue
		}
		if had := m.dropped[s.ID]; s.Dropped > had {
			dropped.add(guest, m.limits[s.ID].Name, s.Dropped-had)
		}
		m.dropped[s.ID] = s.Dropped
	}
	if before && m.unknown || found < len(m.installed) {
		m.unknown = false
		m.invalidate()
	}
	return dropped
}

// add counts packets of a guest, by a limit of that name, empty for none.
func (d *Dropped) add(guest placement.Key, limit string, packets uint64) {
	d.Packets += packets
	if d.ByGuest == nil {
		d.ByGuest = make(map[placement.Key]uint64)
	}
	d.ByGuest[guest] += packets
	if limit == "" {
		return
	}
	if d.ByLimit == nil {
		d.ByLimit = make(map[string]uint64)
	}
	d.ByLimit[limit] += packets
}
