// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/ovn/interest"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// connection is what each database has: its client, its tables, and which conditions it
// has acknowledged. Source.mu guards it, but for client, which is set before the start.
type connection struct {
	client *ovsdb.Client
	// connect makes a client whose receiver has the rows of a position, nil for none.
	connect func(*ovsdb.Position) *ovsdb.Client
	// contents is the rows. The client's goroutine stages rows in contents.tables, and in mirror, without
	// Source.mu.
	*topology.Contents
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
	interest.Monitor
}

func newConnection(name string, of *topology.Contents) *connection {
	return &connection{Contents: of, status: DatabaseStatus{Database: name, Since: time.Now()}}
}

// reset, apply and discard are those of rows.Tables, for the mirror as well. See receiver.
func (c *connection) reset() {
	c.Tables.Reset()
	c.mirror.Reset()
}

func (c *connection) apply() {
	c.Tables.Apply()
	c.mirror.Apply()
}

func (c *connection) discard() {
	c.Tables.Discard()
	c.mirror.Discard()
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

// ask sends the conditions for the rows that are wanted, if that is due.
func (c *connection) ask(want interest.Conditions, now time.Time) {
	if c.Want(want, now) {
		c.Sent(c.client.SetConditions(want.Requests()))
	}
}

// hasAll reports whether all rows that are wanted have come, with all keys of external_ids that are asked for.
func (c *connection) hasAll() bool { return len(c.unreadKeys) == 0 && c.Monitor.HasAll() }
