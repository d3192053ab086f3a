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

// meters limit what guests may send, one meter each. A limit in puntdns would be too late: the switch has one short
// packet-in queue for all guests.
//
// The switch looks a meter up only when a flow that names it is added (ofproto/ofproto.c, ofproto_check_ofpacts). So
// meters are added before flows and deleted after, and flows are added again after their meter.
type meters struct {
	// refused is set if the switch has no meters or refuses those of puntdns.
	refused bool
	// first and last bound puntdns's ids, 0 if refused.
	first, last uint32
	// offset is the first id to take. It is random, since a replaced process may change its meters until it notices.
	offset uint32
	// known is unset while meters must be read.
	known bool
	// version changes with the assignment.
	version uint64
	// installed are the switch's meters with these ids, of any process.
	installed map[uint32]openflow.MeterConfig
	// assigned are the ids of limited guests, limits the limits by id.
	assigned map[placement.Key]uint32
	limits   map[uint32]Limit
	// unknown is set if the last count had a meter with such an id that installed lacks.
	unknown bool
	dropped map[uint32]uint64
}

// maxMeters bounds puntdns's ids, the highest ones: others, like ovn-controller, count from 1.
const maxMeters = 1 << 16

// maxMeterID is Open vSwitch's highest id (OFPM13_MAX). On kernels before 5.8 it reports more.
const maxMeterID = 0xffff0000

func newMeters(offset uint32) meters {
	return meters{
		offset: offset, installed: map[uint32]openflow.MeterConfig{}, assigned: map[placement.Key]uint32{}, limits: map[uint32]Limit{},
		dropped: map[uint32]uint64{},
	}
}

// load takes in the meters and the highest id, 0 without meters.
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

func (m *meters) invalidate() { m.known = false }

// abandon leaves all meters to another process.
func (m *meters) abandon() {
	m.invalidate()
	clear(m.assigned)
	clear(m.limits)
	clear(m.dropped)
}

// assign gives limited guests their previous meter or a free meter. enough is false if meters ran out.
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
			// An installed meter may be another process's, or still named by flows.
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

func inUse(assigned map[placement.Key]uint32) map[uint32]bool {
	all := make(map[uint32]bool, len(assigned))
	for _, id := range assigned {
		all[id] = true
	}
	return all
}

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

// superfluous deletes meters without a guest, also of earlier processes.
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

// applied takes in changes. A deletion frees ids for guests without a meter.
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

// Another program has made or deleted the meter.
const (
	meterExists  = "OFPMMFC_METER_EXISTS"
	unknownMeter = "OFPMMFC_UNKNOWN_METER"
)

// blame reports whether err is about meters, which are then read again. refused reports whether the switch refuses
// meters for the rest of the connection.
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

// count returns new drops. The meters are read again if one is missing, or unknown at two heartbeats in a row: a
// replaced process that has not noticed may make meters after its successor has read them.
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
