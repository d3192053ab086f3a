// SPDX-License-Identifier: Apache-2.0

package rows

import "github.com/puntdns/puntdns/internal/ovsdb"

// Index finds records by a value that several may have, such as the row that they
// refer to: by that value, then by their own UUIDs.
type Index[K comparable, R any] map[K]map[ovsdb.UUID]*R

// Add enters a record.
func (x Index[K, R]) Add(k K, id ovsdb.UUID, record *R) {
	if x[k] == nil {
		x[k] = make(map[ovsdb.UUID]*R)
	}
	x[k][id] = record
}

// Remove takes the record of a UUID out, which may not be in the index.
func (x Index[K, R]) Remove(k K, id ovsdb.UUID) {
	if delete(x[k], id); len(x[k]) == 0 {
		delete(x, k)
	}
}

// Names finds records by a name that only one has. Within an update there may be two:
// the new row of a name may come before the old one goes. The last that has come
// counts.
type Names[R any] map[string]*R

// Remove takes a record out, unless another has its name by now.
func (x Names[R]) Remove(name string, record *R) {
	if x[name] == record {
		delete(x, name)
	}
}

// Owners finds the row that has another in one of its columns of references, where
// only one does: by the UUID of that other row.
type Owners map[ovsdb.UUID]ovsdb.UUID

// Replace takes note that the owner, which had old, has next now.
func (x Owners) Replace(owner ovsdb.UUID, old, next []ovsdb.UUID) {
	for _, id := range old {
		if x[id] == owner { // it may be another's by now
			delete(x, id)
		}
	}
	for _, id := range next {
		x[id] = owner
	}
}
