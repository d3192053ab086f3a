// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// narrowAfter is how long a database is asked for rows that nothing wants any more.
const narrowAfter = time.Hour

// monitor is the conditions of one database: which rows are wanted, which conditions were sent, and which
// of them the rows reflect. It does no I/O. Source.mu guards it.
type monitor struct {
	// wanted asks for the rows that are wanted now. latest was sent last and asks for them too, and perhaps
	// for more. The rows reflect acknowledged. inFlight are those sent since, oldest first.
	wanted               conditions
	latest, acknowledged conditionSet
	inFlight             []conditionSet
	// narrowAt is when wanted takes the place of latest, zero if latest asks for nothing else.
	narrowAt time.Time
	// narrowing is set from then on until latest asks for nothing else: when rows go, others may follow.
	narrowing bool
}

// conditionSet is conditions that were sent. The zero conditionSet is for none.
type conditionSet struct {
	// gen is that of ovsdb.Client.SetConditions, from 1 on.
	gen uint64
	conditions
}

// want sets which rows are wanted. It reports whether conditions are to be sent: those sent last do not ask
// for all of these rows, or have asked for others for narrowAfter. A server looks at each row of a table when its
// conditions change, so what nothing wants any more goes with the next change. Until then the rows change no
// answer, as with Monitor All.
func (m *monitor) want(next conditions, now time.Time) (send bool) {
	m.wanted = next
	switch {
	case m.latest.gen == 0:
		return !next.isEmpty()
	case !m.latest.includes(next):
		m.narrowAt, m.narrowing = time.Time{}, false
		return true
	case next.includes(m.latest.conditions):
		m.narrowAt, m.narrowing = time.Time{}, m.narrowing && len(m.inFlight) > 0
		return false
	case m.narrowing:
		return true
	case m.narrowAt.IsZero():
		m.narrowAt = now.Add(narrowAfter)
		return false
	}
	if m.narrowing = !now.Before(m.narrowAt); m.narrowing {
		m.narrowAt = time.Time{}
	}
	return m.narrowing
}

// sent notes that the wanted conditions were sent with a number.
func (m *monitor) sent(gen uint64) {
	m.latest = conditionSet{gen, m.wanted}
	m.inFlight = append(m.inFlight, m.latest)
}

// acknowledge notes that the rows reflect the conditions with a number. It reports whether these are other
// conditions than before.
func (m *monitor) acknowledge(gen uint64) bool {
	n := 0
	for n < len(m.inFlight) && m.inFlight[n].gen <= gen {
		n++
	}
	if n == 0 {
		return false
	}
	m.acknowledged = m.inFlight[n-1]
	m.inFlight = slices.Delete(m.inFlight, 0, n)
	return true
}

// brings reports whether all rows have come that satisfy a test of conditions: those acknowledged, and those in
// flight. A database removes rows before it acknowledges conditions that do not ask for them.
func (m *monitor) brings(is func(conditions) bool) bool {
	return is(m.acknowledged.conditions) &&
		!slices.ContainsFunc(m.inFlight, func(s conditionSet) bool { return !is(s.conditions) })
}

// has reports whether the rows of a clause have come.
func (m *monitor) has(table string, of clause) bool {
	return m.brings(func(c conditions) bool { return c.has(table, of) })
}

// hasRows reports whether rows have come, if there are any with these UUIDs.
func (m *monitor) hasRows(table string, ids []ovsdb.UUID) bool {
	return m.brings(func(of conditions) bool {
		return !slices.ContainsFunc(ids, func(id ovsdb.UUID) bool { return !of.has(table, rowWithID(id)) })
	})
}

// hasAll reports whether all rows that are wanted have come.
func (m *monitor) hasAll() bool {
	return len(m.inFlight) == 0 ||
		m.acknowledged.gen > 0 && m.brings(func(c conditions) bool { return c.includes(m.wanted) })
}
