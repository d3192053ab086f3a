// SPDX-License-Identifier: Apache-2.0

package ovn

import "github.com/puntdns/puntdns/internal/ovsdb"

// receiver is the ovsdb.Receiver of one database. The goroutine of its client calls it.
type receiver struct {
	source *Source
	db     database
}

func (r receiver) Reset() {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	d := r.db.conn()
	d.partial, d.syncing, d.interrupted = true, true, false
	d.begun, d.keysAdded, d.unsaved = true, false, true
	d.mirror.Reset()
	d.tables.Begin()
}

func (r receiver) Row(table string, id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) error {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	d := r.db.conn()
	d.partial, d.unsaved, d.interrupted = true, true, false
	d.mirror.Apply(table, id, op, row)
	d.tables.Apply(table, id, op, row)
	return nil
}

func (r receiver) Conditions(gen uint64) {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	d := r.db.conn()
	if d.acknowledge(gen) {
		// The position that has these conditions comes with the Commit.
		d.partial, d.unsaved, d.interrupted = true, true, false
		r.source.coverageChanged, r.source.conditionsDirty = true, true
		r.source.touchAllNodes()
	}
}

func (r receiver) Commit() {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	d := r.db.conn()
	// A connection that has sent only what has changed is in sync by it, too.
	fresh := d.syncing || !d.status.Synced
	if d.syncing {
		d.tables.Sweep()
		if len(d.unreadKeys) > 0 && !d.keysAdded {
			d.unreadKeys, r.source.coverageChanged = nil, true
		}
	}
	if fresh {
		r.db.synced()
		r.source.refreshed(d)
	}
	d.position = d.client.Position()
	d.partial, d.syncing, d.whole = false, false, true
	r.source.update()
}

func (r receiver) Ended() {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	if d := r.db.conn(); d.partial && d.whole && !d.interrupted {
		d.interrupted = true
		r.source.update()
	}
}

func (r receiver) State(state ovsdb.State) {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	r.db.conn().status.set(state, r.source.log)
}
