// SPDX-License-Identifier: Apache-2.0

// Package rows stores the rows of database tables as Go structs, and reports changes. It knows no schema.
//
//	ovsdb.Client ──row──► Stage ──columns set fields──► *R, staged
//	             ──commit──► Apply ──changed(id, old, new)──► indexes of the owner
//
// Each Column of a Table sets a field of the record R. A staged record is immutable: a change makes a new
// record. So an owner can index and compare records by pointer.
//
// # Transactions
//
// Stage, Reset and Discard collect a transaction, which Apply writes. On a new connection the database sends
// all rows again: Reset marks the rows, and Apply removes rows that were not sent again (mark and sweep). An
// unchanged row is no change.
//
// # Goroutines and locks
//
// The goroutine of the ovsdb.Client calls Stage, Reset, Discard and Apply. It holds the owner's lock for
// Apply only, as no other goroutine writes records. Other goroutines hold the lock to read records.
package rows
