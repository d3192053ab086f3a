// SPDX-License-Identifier: Apache-2.0

// Package trail writes lines of JSON to a file or a socket. Append never waits for either. The package knows
// nothing of DNS.
//
//	query ─► Lease.Append ─► queue ─► Writer.run ─► sink: file, which is rotated
//	query ─►  (copies)      bounded   (goroutine)         or socket, which is connected again
//
// Lines wait in the queue while the disk is full or the collector is gone. A full queue drops new lines. A
// dropped line uses up a sequence number, and a line with the event lost reports how many lines were dropped.
// So a reader sees each gap.
//
// All leases of a target share its Writer, also across reloads of the Corefile.
//
// # Goroutines and locks
//
// Each Writer has one goroutine for its sink, which Acquire has opened.
//
//	writersMu  the writers, and the leases of each
//	queue.mu   the lines; held while a line is copied, or a chunk for many lines is allocated
package trail
