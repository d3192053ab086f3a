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
	client  *ovsdb.Client
	connect func(*ovsdb.Position) *ovsdb.Client
	// The client's goroutine stages rows in Contents.Tables and mirror, without Source.mu.
	*topology.Contents
	// mirror has the rows at position for the saved state. unsaved is set if rows or conditions have changed
	// since the last write.
	mirror   *ovsdb.Mirror
	position ovsdb.Position
	restored bool
	unsaved  bool
	status   DatabaseStatus
	// filled is set once the tables reflect a position.
	filled bool
	begun  bool
	// keysAdded is set from a request for new external_ids keys to the next Reset. Rows lack missingKeys
	// until the Commit after this Reset.
	keysAdded   bool
	missingKeys []string
	interest.Monitor
}

func newConnection(name string, of *topology.Contents) *connection {
	return &connection{Contents: of, status: DatabaseStatus{Database: name, Since: time.Now()}}
}

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

func (c *connection) readKeys(keys []string) {
	c.keysAdded, c.missingKeys = true, append(c.missingKeys, keys...)
	if c.begun {
		c.client.Resync()
	}
}

// done reports that forgetKeysExcept forgot the last missing key.
func (c *connection) forgetKeysExcept(requested []string) (done bool) {
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
