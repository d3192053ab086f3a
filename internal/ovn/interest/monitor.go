// SPDX-License-Identifier: Apache-2.0

package interest

import (
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// NarrowAfter is how long a database is asked for rows that nothing wants any more.
const NarrowAfter = time.Hour

// Monitor is the conditions of one database: which rows are wanted, which conditions were sent, and which
// of them the rows reflect. It does no I/O. Source.mu guards it.
type Monitor struct {
	// wanted asks for the rows that are wanted now. latest was sent last and asks for them too, and perhaps
	// for more. The rows reflect acknowledged. inFlight are those sent since, oldest first.
	wanted               Conditions
	Latest, Acknowledged ConditionSet
	InFlight             []ConditionSet
	// NarrowAt is when wanted takes the place of latest, zero if latest asks for nothing else.
	NarrowAt time.Time
	// narrowing is set from then on until latest asks for nothing else: when rows go, others may follow.
	narrowing bool
}

// ConditionSet is conditions that were sent. The zero conditionSet is for none.
type ConditionSet struct {
	// Gen is that of ovsdb.Client.SetConditions, from 1 on.
	Gen uint64
	Conditions
}

// Want sets which rows are wanted. It reports whether conditions are to be sent: those sent last do not ask
// for all of these rows, or have asked for others for narrowAfter. A server looks at each row of a table when its
// conditions change, so what nothing wants any more goes with the next change. Until then the rows change no
// answer, as with Monitor All.
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

// Sent notes that the wanted conditions were sent with a number.
func (m *Monitor) Sent(gen uint64) {
	m.Latest = ConditionSet{gen, m.wanted}
	m.InFlight = append(m.InFlight, m.Latest)
}

// Acknowledge notes that the rows reflect the conditions with a number. It reports whether these are other
// conditions than before.
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

// brings reports whether all rows have come that satisfy a test of conditions: those acknowledged, and those in
// flight. A database removes rows before it acknowledges conditions that do not ask for them.
func (m *Monitor) brings(is func(Conditions) bool) bool {
	return is(m.Acknowledged.Conditions) &&
		!slices.ContainsFunc(m.InFlight, func(s ConditionSet) bool { return !is(s.Conditions) })
}

// has reports whether the rows of a clause have come.
func (m *Monitor) has(table string, of clause) bool {
	return m.brings(func(c Conditions) bool { return c.Has(table, of) })
}

// hasRows reports whether rows have come, if there are any with these UUIDs.
func (m *Monitor) hasRows(table string, ids []ovsdb.UUID) bool {
	return m.brings(func(of Conditions) bool {
		return !slices.ContainsFunc(ids, func(id ovsdb.UUID) bool { return !of.Has(table, RowWithID(id)) })
	})
}

// HasAll reports whether all rows that are wanted have come.
func (m *Monitor) HasAll() bool {
	return len(m.InFlight) == 0 ||
		m.Acknowledged.Gen > 0 && m.brings(func(c Conditions) bool { return c.includes(m.wanted) })
}
