// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// database is what Southbound and Northbound have in common.
type database struct {
	client *ovsdb.Client
	status DatabaseStatus
	// open is set while the rows are no consistent picture: from the start or a
	// Reset to the Commit, and from the first row of an update to its Commit.
	open bool
	// syncing is set from a Reset to its Commit. The rows that come are compared
	// with those known, and what has not come by then is gone.
	syncing    bool
	generation uint32
	// asked are the changes of conditions that are not acknowledged, cover is
	// the last one that is. last is the newest of all.
	asked []request
	last  request
	cover cover
}

// cover is what conditions ask for.
type cover struct {
	// rows are those asked for by UUID, by table, sorted.
	rows map[string][]ovsdb.UUID
	// peers are what leads to rows not known yet, sorted: in Southbound the names
	// of ports, in Northbound the UUIDs of ports whose switch is wanted.
	peers []string
	// joined is set if the rows that join networks are asked for.
	joined bool
}

func (c cover) has(table string, id ovsdb.UUID) bool {
	_, ok := slices.BinarySearchFunc(c.rows[table], id, ovsdb.UUID.Compare)
	return ok
}

func (c cover) hasAll(table string, ids []ovsdb.UUID) bool {
	for _, id := range ids {
		if !c.has(table, id) {
			return false
		}
	}
	return true
}

func (c cover) hasPeer(peer string) bool {
	_, ok := slices.BinarySearch(c.peers, peer)
	return ok
}

// equals assumes that both name the same tables.
func (c cover) equals(other cover) bool {
	for table, ids := range c.rows {
		if !slices.Equal(ids, other.rows[table]) {
			return false
		}
	}
	return len(c.rows) == len(other.rows) && slices.Equal(c.peers, other.peers) && c.joined == other.joined
}

type request struct {
	gen   uint64
	other string // conditions that are not in cover
	cover cover
}

func newDatabase(name string) database {
	return database{open: true, status: DatabaseStatus{Database: name, Since: time.Now()}}
}

func (d *database) base() *database { return d }

// ask sets the conditions unless they are those asked for last.
func (d *database) ask(c cover, other string, conditions map[string][]ovsdb.Condition) {
	if d.last.gen > 0 && d.last.other == other && d.last.cover.equals(c) {
		return
	}
	d.last = request{d.client.SetConditions(conditions), other, c}
	d.asked = append(d.asked, d.last)
}

// acknowledge tells whether the rows cover more or less than before.
func (d *database) acknowledge(gen uint64) bool {
	n := 0
	for n < len(d.asked) && d.asked[n].gen <= gen {
		n++
	}
	if n == 0 {
		return false
	}
	d.cover = d.asked[n-1].cover
	d.asked = slices.Delete(d.asked, 0, n)
	return true
}

// byUUID makes conditions for the rows of those UUIDs, none for none.
func byUUID(column, function string, ids []ovsdb.UUID, more ...ovsdb.Condition) []ovsdb.Condition {
	all := make([]ovsdb.Condition, 0, len(ids)+len(more))
	all = append(all, more...)
	for _, id := range ids {
		all = append(all, ovsdb.Condition{Column: column, Function: function, Value: id})
	}
	return all
}

// sorted gives the members of a set in order, each once.
func sorted(ids []ovsdb.UUID) []ovsdb.UUID {
	slices.SortFunc(ids, ovsdb.UUID.Compare)
	return slices.Compact(ids)
}

// patchKey brings the value of one key of a map of strings up to date. No value
// and an empty one are the same to OVN here.
func patchKey(row *ovsdb.Row, col int, key, old string) string {
	if !row.Has(col) {
		return old
	}
	value := ""
	if row.Diff(col) {
		value = old
	}
	for i := range row.Len(col) {
		k, v := row.PairAt(col, i)
		if string(k) != key {
			continue
		}
		if value == string(v) {
			return "" // a difference that names the pair known takes it away
		}
		return string(v)
	}
	return value
}

// reporter makes the report function for one row.
func (w *world) reporter(database, table string, id ovsdb.UUID) report {
	return func(where, value string, err error) {
		of := ""
		if value != "" { // else it is the name that is wrong
			of = fmt.Sprintf(": value %.80q", value)
		}
		w.bad(fmt.Sprintf("%s: %s %s: %.80q%s skipped: %v", database, table, id, where, of, err))
	}
}
