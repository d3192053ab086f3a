// SPDX-License-Identifier: Apache-2.0

package interest

import (
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// NarrowAfter is how long conditions may request unwanted rows.
const NarrowAfter = time.Hour

// Monitor has the conditions of one database. It does no I/O. Source.mu guards it.
type Monitor struct {
	// wanted requests exactly the wanted rows. Latest was sent last, and includes wanted. The rows reflect
	// Acknowledged. InFlight was sent since, oldest first.
	wanted               Conditions
	Latest, Acknowledged ConditionSet
	InFlight             []ConditionSet
	// NarrowAt is when wanted replaces Latest, or zero.
	NarrowAt time.Time
	// narrowing is set from NarrowAt until Latest requests no more than wanted: rows that go may let others
	// go.
	narrowing bool
}

type ConditionSet struct {
	// Gen is of ovsdb.Client.SetConditions, from 1 on, 0 for none.
	Gen uint64
	Conditions
}

// Want sets the wanted rows. send is set if the latest conditions lack some of them, or have requested other
// rows for NarrowAfter.
//
// A server searches all rows of a table when its conditions change, so unwanted rows go with the next change.
func (m *Monitor) Want(next Conditions, now time.Time) (send bool) {
	m.wanted = next
	switch {
	case m.Latest.Gen == 0:
		return !next.isEmpty()
	case !m.Latest.includes(next):
		m.NarrowAt, m.narrowing = time.Time{}, false
		return true
	case next.includes(m.Latest.Conditions):
		m.NarrowAt, m.narrowing = time.Time{}, m.narrowing && len(m.InFlight) > 0
		return false
	case m.narrowing:
		return true
	case m.NarrowAt.IsZero():
		m.NarrowAt = now.Add(NarrowAfter)
		return false
	}
	if m.narrowing = !now.Before(m.NarrowAt); m.narrowing {
		m.NarrowAt = time.Time{}
	}
	return m.narrowing
}

func (m *Monitor) Sent(gen uint64) {
	m.Latest = ConditionSet{gen, m.wanted}
	m.InFlight = append(m.InFlight, m.Latest)
}

func (m *Monitor) Acknowledge(gen uint64) bool {
	n := 0
	for n < len(m.InFlight) && m.InFlight[n].Gen <= gen {
		n++
	}
	if n == 0 {
		return false
	}
	m.Acknowledged = m.InFlight[n-1]
	m.InFlight = slices.Delete(m.InFlight, 0, n)
	return true
}

// brings tests the acknowledged conditions and all in flight: a database removes rows before it acknowledges
// conditions without them.
func (m *Monitor) brings(is func(Conditions) bool) bool {
	return is(m.Acknowledged.Conditions) &&
		!slices.ContainsFunc(m.InFlight, func(s ConditionSet) bool { return !is(s.Conditions) })
}

func (m *Monitor) has(table string, of clause) bool {
	return m.brings(func(c Conditions) bool { return c.Has(table, of) })
}

func (m *Monitor) hasRows(table string, ids []ovsdb.UUID) bool {
	return m.brings(func(of Conditions) bool {
		return !slices.ContainsFunc(ids, func(id ovsdb.UUID) bool { return !of.Has(table, RowWithID(id)) })
	})
}

func (m *Monitor) HasAll() bool {
	return len(m.InFlight) == 0 ||
		m.Acknowledged.Gen > 0 && m.brings(func(c Conditions) bool { return c.includes(m.wanted) })
}
