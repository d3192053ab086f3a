// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"cmp"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// database is the rows of one of the OVN databases, and the conditions that say which
// rows to read. southbound and northbound are one each.
type database interface {
	conn() *connection
	// synced is called when a new connection has sent all rows.
	synced()
	// setConditions asks for the rows that are wanted now.
	setConditions(now time.Time)
	// covers reports whether the conditions acknowledged give all rows of a network.
	covers(id origin.Network) bool
}

// topology is the database that says which networks there are: Southbound where that
// is read, else Northbound.
type topology interface {
	graph
	attached
	// networkIDs yields the networks that have rows, complete or not. networksNamed returns
	// those of a name, in any order, some perhaps more than once.
	networkIDs(yield func(origin.Network) bool)
	networksNamed(name string) []origin.Network
	// describe sets what the row of a network says, and returns its DNS rows in any
	// order, some perhaps more than once. It reports whether there is such a network.
	describe(n *Network) (dns []*dnsRow, ok bool)
	// addPorts adds the ports of a network.
	addPorts(b *portsBuilder)
}

// connection is what each database has: its client, its tables, and which conditions it
// has acknowledged. Source.mu guards it, but for client, which is set before the start.
type connection struct {
	client *ovsdb.Client
	// connect makes a client whose receiver has the rows of a position, nil for none.
	connect func(*ovsdb.Position) *ovsdb.Client
	// tables are set before the start. The client's goroutine stages rows in them, and in mirror,
	// without Source.mu.
	tables rows.Tables
	// changes is what Apply of the tables has changed.
	changes  changes
	dnsCount dnsCount
	// mirror has the rows for a file, nil without one. position is which state of the database
	// they are, and restored is set as long as they are those of a file. unsaved is set when rows or
	// conditions have changed since the last write.
	mirror   *ovsdb.Mirror
	position ovsdb.Position
	restored bool
	unsaved  bool
	status   DatabaseStatus
	// filled is set once the tables have a state of the database.
	filled bool
	// begun is set once a connection has begun to send rows.
	begun bool
	// keysAdded is set from when keys of external_ids are asked for (Requests.ExternalIDs) to the
	// next Reset. unreadKeys are these keys up to the Commit behind that, as long as they are
	// asked for: until then rows lack their values.
	keysAdded  bool
	unreadKeys []string
	// unacknowledged are the conditions that are set and not acknowledged, oldest
	// first.
	unacknowledged []conditionSet
	// latest are the conditions set last, acknowledged or not; the zero conditionSet
	// if none were set.
	latest conditionSet
	// wanted are the conditions for the rows that are wanted now. latest bring them, and perhaps more.
	wanted conditionSet
	// acknowledged are the conditions that the rows reflect; the zero conditionSet if none
	// were acknowledged.
	acknowledged conditionSet
	// narrowAt is when the conditions go that bring rows which nothing wants any more, zero for
	// never.
	narrowAt time.Time
}

// conditionSet is one change of conditions.
type conditionSet struct {
	// gen is that of ovsdb.Client.SetConditions, from 1 on.
	gen uint64
	// others identify the conditions that are not in coverage. They are sorted.
	others   []string
	coverage coverage
}

// excessTime is how long a database is asked for rows that nothing wants any more.
const excessTime = time.Hour

// includes reports whether c brings all rows of another set. It may report false where c does.
func (c conditionSet) includes(other conditionSet) bool {
	return includes(c.others, other.others, cmp.Compare) && c.coverage.includes(other.coverage)
}

func newConnection(name string) connection {
	return connection{status: DatabaseStatus{Database: name, Since: time.Now()}}
}

func (c *connection) conn() *connection { return c }

// reset, apply and discard are those of rows.Tables, for the mirror as well. See receiver.
func (c *connection) reset() {
	c.tables.Reset()
	c.mirror.Reset()
}

func (c *connection) apply() {
	c.tables.Apply()
	c.mirror.Apply()
}

func (c *connection) discard() {
	c.tables.Discard()
	c.mirror.Discard()
}

// set asks for what is wanted now, unless the conditions set last bring it. A change of conditions has
// the server look at all rows of a table, so rows that nothing wants any more go with the next change, or
// after excessTime. Until then they change no answer, as with Monitor All. It may change the order of others.
func (c *connection) set(cover coverage, others []string, conditions map[string][]ovsdb.Condition, now time.Time) {
	slices.Sort(others)
	next := conditionSet{others: slices.Compact(others), coverage: cover}
	c.wanted = next
	if c.latest.gen > 0 && c.latest.includes(next) {
		switch {
		case next.includes(c.latest):
			c.narrowAt = time.Time{}
			return
		case c.narrowAt.IsZero():
			c.narrowAt = now.Add(excessTime)
			return
		case now.Before(c.narrowAt):
			return
		}
	}
	c.narrowAt = time.Time{}
	next.gen = c.client.SetConditions(conditions)
	c.latest = next
	c.unacknowledged = append(c.unacknowledged, c.latest)
}

// readKeys has all rows read with keys of external_ids that nobody has asked for before.
func (c *connection) readKeys(keys []string) {
	c.keysAdded, c.unreadKeys = true, append(c.unreadKeys, keys...)
	if c.begun {
		c.client.Resync()
	}
}

// keepKeys says which keys are asked for still. It reports whether nothing is to be waited for
// any more: all that had not been read are not.
func (c *connection) keepKeys(asked []string) (done bool) {
	before := len(c.unreadKeys)
	c.unreadKeys = slices.DeleteFunc(c.unreadKeys, func(key string) bool { return !slices.Contains(asked, key) })
	return before > 0 && len(c.unreadKeys) == 0
}

// hasAll reports whether the rows are all that is wanted: the conditions acknowledged bring them, and so do
// all conditions set since. With conditions that bring less the database removes rows before it acknowledges them.
func (c *connection) hasAll() bool {
	if len(c.unreadKeys) > 0 {
		return false
	}
	if len(c.unacknowledged) == 0 {
		return true
	}
	if c.acknowledged.gen == 0 || !c.acknowledged.includes(c.wanted) {
		return false
	}
	for _, between := range c.unacknowledged {
		if !between.includes(c.wanted) {
			return false
		}
	}
	return true
}

// brings reports whether the database gives the rows that is asks for in a coverage: by the conditions
// acknowledged, and by all that are set since. A database removes rows before it acknowledges less.
func (c *connection) brings(is func(coverage) bool) bool {
	return is(c.acknowledged.coverage) &&
		!slices.ContainsFunc(c.unacknowledged, func(s conditionSet) bool { return !is(s.coverage) })
}

// acknowledge is called when the rows reflect the conditions with that number. It reports
// whether these are other conditions than before.
func (c *connection) acknowledge(gen uint64) bool {
	n := 0
	for n < len(c.unacknowledged) && c.unacknowledged[n].gen <= gen {
		n++
	}
	if n == 0 {
		return false
	}
	c.acknowledged = c.unacknowledged[n-1]
	c.unacknowledged = slices.Delete(c.unacknowledged, 0, n)
	return true
}
