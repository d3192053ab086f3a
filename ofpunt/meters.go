// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// meters are the switch's limits on what guests may ask, one meter for each. A
// limit in this process would come too late: the switch has one short queue of
// packet-ins for all. Its methods are called from the session's one goroutine.
type meters struct {
	bridge string
	conn   *openflow.Conn

	// refused is set where the switch has no meters, or none of ours.
	refused bool
	// short is set once there were more guests than meters.
	short bool
	// first and last bound the ids that are puntdns's; both are 0 if refused.
	first, last uint32
	// read is unset while it is unknown what stands in the switch; looks is how
	// often that was read.
	read  bool
	looks int
	// have are the meters of that range in the switch, of any process.
	have map[uint32]openflow.MeterConfig
	// given are the ids of the guests that are to be limited.
	given map[guestKey]uint32
	// dropped is what each meter had dropped at the last look.
	dropped map[uint32]uint64
}

// maxMeters is how many of the highest ids are puntdns's: others count from 1 up,
// as ovn-controller does.
const maxMeters = 1 << 16

func newMeters(bridge string, conn *openflow.Conn) *meters {
	return &meters{bridge: bridge, conn: conn, given: map[guestKey]uint32{}, dropped: map[uint32]uint64{}}
}

// look reads what stands in the switch, unless that is known. wanted tells whether
// guests are to be limited.
func (m *meters) look(ctx context.Context, wanted bool) error {
	if !m.read {
		most, all, err := m.ask(ctx)
		if err != nil {
			return err
		}
		m.take(most, all)
	}
	if m.last == 0 && wanted {
		m.refuse(errors.New("its datapath has no meters"))
	}
	return nil
}

// take takes in what stands in the switch, and the highest id that it has.
func (m *meters) take(most uint32, all []openflow.MeterConfig) {
	m.first, m.last = max(most/2, most-min(most, maxMeters))+1, most
	if m.refused || most == 0 {
		m.first, m.last = 0, 0
		clear(m.given)
	}
	m.looks++
	m.read, m.have = true, map[uint32]openflow.MeterConfig{}
	for _, c := range all {
		if c.ID >= m.first && c.ID <= m.last {
			m.have[c.ID] = c
		}
	}
}

// refuse gives the meters up, for as long as the connection lives.
func (m *meters) refuse(why error) {
	if !m.refused {
		m.refused = true
		log.Warningf("Bridge %s: rate is not enforced: %v", m.bridge, why)
	}
}

func (m *meters) ask(ctx context.Context) (most uint32, all []openflow.MeterConfig, err error) {
	if most, err = m.conn.MaxMeter(ctx); err == nil && most > 0 {
		all, err = m.conn.Meters(ctx)
	}
	if refused := (*openflow.SwitchError)(nil); errors.As(err, &refused) {
		return 0, nil, nil // a switch that knows no meters has none
	}
	return most, all, err
}

// forget has the switch asked again: somebody else may have deleted meters.
func (m *meters) forget() { m.read = false }

// leave leaves all meters to another process, which may delete them or use their
// ids.
func (m *meters) leave() {
	m.forget()
	clear(m.given)
	clear(m.dropped)
}

// assign begins a new distribution of ids: it returns what gives a guest its own,
// the one that it had if it had one, or 0 if none is left.
func (m *meters) assign() func(guestKey) uint32 {
	before, taken := m.given, ids(m.given)
	m.given = make(map[guestKey]uint32, len(before))
	next := m.last
	return func(g guestKey) uint32 {
		id, ok := before[g]
		for ; !ok; next-- {
			if next < m.first || m.last == 0 {
				if m.last > 0 && !m.short {
					m.short = true
					log.Warningf("Bridge %s: rate is not enforced for some guests: there is room for %d meters", m.bridge, m.last-m.first+1)
				}
				return 0
			}
			// One that stands already may be another process's, whose flows may
			// stand still.
			if _, stands := m.have[next]; !stands && !taken[next] {
				id, ok = next, true
			}
		}
		m.given[g] = id
		return id
	}
}

// ids are the meters of guests.
func ids(given map[guestKey]uint32) map[uint32]bool {
	all := make(map[uint32]bool, len(given))
	for _, id := range given {
		all[id] = true
	}
	return all
}

// errMeters says that the switch has other meters than was known.
var errMeters = errors.New("the meters of the switch have changed")

// ensure makes the switch have the meters of all guests, at rate packets per
// second and burst packets at once. With errMeters it is to be tried again.
func (m *meters) ensure(ctx context.Context, rate, burst uint32) error {
	var mods []openflow.MeterMod
	for _, id := range m.given {
		want := openflow.MeterConfig{ID: id, Rate: rate, Burst: burst}
		had, ok := m.have[id]
		if ok && had == want {
			continue
		}
		mod := openflow.MeterMod{Command: openflow.Add, ID: id, Rate: rate, Burst: burst}
		if ok {
			mod.Command = openflow.Modify
		}
		mods = append(mods, mod)
		m.have[id] = want
	}
	return m.change(ctx, mods)
}

// trim deletes the meters that no guest has, those of processes that came before
// included; no flow may name them any more, since it would go with its meter.
func (m *meters) trim(ctx context.Context) error {
	inUse := ids(m.given)
	var mods []openflow.MeterMod
	for id := range m.have {
		if !inUse[id] {
			mods = append(mods, openflow.MeterMod{Command: openflow.Delete, ID: id})
			delete(m.have, id)
			delete(m.dropped, id)
		}
	}
	return m.change(ctx, mods)
}

func (m *meters) change(ctx context.Context, mods []openflow.MeterMod) error {
	if len(mods) == 0 {
		return nil
	}
	return m.blame(m.conn.ModMeters(ctx, mods), false)
}

// Names of the errors about a meter that somebody else has made or deleted.
const (
	meterExists  = "OFPMMFC_METER_EXISTS"
	unknownMeter = "OFPMMFC_UNKNOWN_METER"
)

// blame makes errMeters of an error of the switch that is about meters. A flow is
// refused for its meter if that has gone meanwhile; a meter may be refused for good.
func (m *meters) blame(err error, flow bool) error {
	var refused *openflow.SwitchError
	if !errors.As(err, &refused) || !strings.HasPrefix(refused.Name(), "OFPMMFC_") {
		return err
	}
	m.forget()
	if n := refused.Name(); !flow && n != meterExists && n != unknownMeter {
		m.refuse(err)
	}
	return fmt.Errorf("%w: %w", errMeters, err)
}

// count adds what the guests' meters have dropped since the last look to the metric.
func (m *meters) count(ctx context.Context) error {
	if len(m.given) == 0 {
		return nil
	}
	all, err := m.conn.MeterStats(ctx)
	if refused := (*openflow.SwitchError)(nil); errors.As(err, &refused) {
		return nil // the connection does without
	}
	if err != nil {
		return err
	}
	guests := ids(m.given)
	for _, s := range all {
		if !guests[s.ID] {
			continue
		}
		if before := m.dropped[s.ID]; s.Dropped >= before {
			rateDrops.WithLabelValues(m.bridge).Add(float64(s.Dropped - before))
		}
		m.dropped[s.ID] = s.Dropped
	}
	return nil
}
