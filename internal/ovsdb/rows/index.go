// SPDX-License-Identifier: Apache-2.0

package rows

import "github.com/puntdns/puntdns/internal/ovsdb"

// Index finds records by a value that several records may have, and then by their UUIDs.
type Index[K comparable, R any] map[K]map[ovsdb.UUID]*R

func (x Index[K, R]) Add(k K, id ovsdb.UUID, record *R) {
	if x[k] == nil {
		x[k] = make(map[ovsdb.UUID]*R)
	}
	x[k][id] = record
}

func (x Index[K, R]) Remove(k K, id ovsdb.UUID) {
	if delete(x[k], id); len(x[k]) == 0 {
		delete(x, k)
	}
}

// Names finds records by a unique name. Within an update the new row may come before the old row with the
// same name is deleted: the later row counts.
type Names[R any] map[string]*R

// Remove keeps another record that has taken the name.
func (x Names[R]) Remove(name string, record *R) {
	if x[name] == record {
		delete(x, name)
	}
}

type Owners map[ovsdb.UUID]ovsdb.UUID

func (x Owners) Replace(owner ovsdb.UUID, old, next []ovsdb.UUID) {
	for _, id := range old {
		if x[id] == owner {
			delete(x, id)
		}
	}
	for _, id := range next {
		x[id] = owner
	}
}
