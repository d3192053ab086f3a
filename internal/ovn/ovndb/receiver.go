// SPDX-License-Identifier: Apache-2.0

package ovndb

import "github.com/puntdns/puntdns/internal/ovsdb"

// receiver is the ovsdb.Receiver of one database, on the goroutine of its client. Commit applies the staged
// transaction under the lock.
type receiver struct {
	source *Source
	db     *connection
	// reset is set if the staged rows replace all rows. gen numbers the conditions that the rows reflect, 0
	// for unchanged.
	staged, reset bool
	gen           uint64
}

func (r *receiver) Reset() {
	r.db.reset()
	*r = receiver{source: r.source, db: r.db, staged: true, reset: true}
	// Rows from here on have all external_ids keys requested now.
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	r.db.begun, r.db.keysAdded = true, false
}

func (r *receiver) Row(table string, id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) error {
	r.db.Tables.Stage(table, id, op, row)
	r.db.mirror.Stage(table, id, op, row)
	r.staged = true
	return nil
}

func (r *receiver) Conditions(gen uint64) { r.gen = gen }

func (r *receiver) Commit() {
	r.apply()
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	r.source.update()
}

// apply locks separately, so that callers of the Source do not wait for the next snapshot too.
func (r *receiver) apply() {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	r.db.apply()
	r.db.unsaved = r.db.unsaved || r.staged
	if r.db.Acknowledge(r.gen) {
		r.db.unsaved = true
		r.source.coverageChanged, r.source.conditionsDirty = true, true
		if r.source.components.IsUsed() {
			r.source.components.TouchAll(r.source.topology)
		}
	}
	if r.reset && len(r.db.missingKeys) > 0 && !r.db.keysAdded {
		r.db.missingKeys, r.source.coverageChanged = nil, true
	}
	if r.reset || !r.db.status.Synced {
		r.source.coverageChanged = true // the next snapshot's Time shows the sync
		r.source.refreshed(r.db)
	}
	r.db.position = r.db.client.Position()
	r.db.filled = true
	*r = receiver{source: r.source, db: r.db}
}

func (r *receiver) Ended() {
	r.db.discard()
	*r = receiver{source: r.source, db: r.db}
}

func (r *receiver) State(state ovsdb.State) {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	r.db.status.set(state, r.source.log)
}
