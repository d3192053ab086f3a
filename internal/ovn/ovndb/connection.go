// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/ovn/interest"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// connection is one database. Source.mu guards it, except client, which is set before the start.
type connection struct {
	client *ovsdb.Client
	// connect returns a client that resumes at a position, nil for none.
	connect func(*ovsdb.Position) *ovsdb.Client
	// The client's goroutine stages rows in Contents.Tables and mirror, without Source.mu.
	*topology.Contents
	// mirror has the rows for the saved state, nil without a warm start. The rows reflect position. restored is
	// set for restored rows. unsaved is set when rows or conditions have changed since the last write.
	mirror   *ovsdb.Mirror
	position ovsdb.Position
	restored bool
	unsaved  bool
	status   DatabaseStatus
	// filled is set once the tables reflect a position.
	filled bool
	begun  bool
	// keysAdded is set from a request for new keys of external_ids to the next Reset. Rows lack missingKeys
	// until the Commit after this Reset.
	keysAdded   bool
	missingKeys []string
	interest.Monitor
}

func newConnection(name string, of *topology.Contents) *connection {
	return &connection{Contents: of, status: DatabaseStatus{Database: name, Since: time.Now()}}
}

// reset, apply and discard call rows.Tables and mirror. See receiver.
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

// readKeys makes the client read all rows again, with new keys of external_ids.
func (c *connection) readKeys(keys []string) {
	c.keysAdded, c.missingKeys = true, append(c.missingKeys, keys...)
	if c.begun {
		c.client.Resync()
	}
}

// keepKeys forgets missing keys that are not requested. done reports that it forgot the last one.
func (c *connection) keepKeys(requested []string) (done bool) {
	before := len(c.missingKeys)
	c.missingKeys = slices.DeleteFunc(c.missingKeys, func(key string) bool { return !slices.Contains(requested, key) })
	return before > 0 && len(c.missingKeys) == 0
}

func (c *connection) ask(want interest.Conditions, now time.Time) {
	if c.Want(want, now) {
		c.Sent(c.client.SetConditions(want.Requests()))
	}
}

func (c *connection) hasAll() bool { return len(c.missingKeys) == 0 && c.Monitor.HasAll() }
