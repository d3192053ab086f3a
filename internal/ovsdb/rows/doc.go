// SPDX-License-Identifier: Apache-2.0

// Package rows stores the rows of database tables as Go structs, and reports what has
// changed. It knows no schema.
//
//	ovsdb.Client ──row──► Stage ──columns set fields──► *R, staged
//	             ──commit──► Apply ──changed(id, old, new)──► indexes of the owner
//
// A Table says by its Columns which columns it reads, and how each sets a field of the
// record R. A record is never altered once it is staged: a change makes another record.
// So an owner can store pointers to records in indexes, and compare them.
//
// # Transactions
//
// Stage, Reset and Discard collect a transaction beside the records. Apply makes the
// records what was staged. When a connection is new, the database sends all rows once
// more: Reset notes the rows, and Apply removes those that have not come since (mark and
// sweep). A row that comes as it was is no change.
//
// # Goroutines and locks
//
// One goroutine, that of the ovsdb.Client, calls Stage, Reset, Discard and Apply. It
// holds the owner's lock for Apply only. All others hold that lock to read records.
// Stage reads records without the lock, since no other goroutine writes them.
package rows
