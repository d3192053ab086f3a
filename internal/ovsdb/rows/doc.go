// SPDX-License-Identifier: Apache-2.0

// Package rows keeps the rows of database tables as Go structs, and tells what has
// changed. It knows no schema.
//
//	ovsdb.Client ──row──► Tables ──► Table[R] ──columns set fields──► *R
//	                                    │
//	                                    └──changed(id, old, new)──► indexes, dirty marks
//
// A Table says by its Columns which columns it reads, and how each goes into a field
// of the record R. A record is never altered once it is in a Table: a change makes
// another one. So pointers to records can be kept in indexes, and compared.
//
// When a connection is new, the database tells all rows once more. Begin marks every
// row as unseen, and Sweep removes the rows that have not come by the end (mark and
// sweep). What has come the same as before is no change.
//
// There are no goroutines and no locks: a Table belongs to whoever holds the lock of
// its owner.
package rows
