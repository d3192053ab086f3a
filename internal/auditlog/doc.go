// SPDX-License-Identifier: Apache-2.0

// Package auditlog writes lines of JSON to a file or a socket. Append never waits for either.
//
//	query ─► Lease.Append ─► queue ─► Writer.run ─► sink: file, which is rotated
//	query ─►  (copies)      bounded   (goroutine)         or socket, which is connected again
//
// Lines wait in the queue while the disk is full or the collector is gone. A full queue drops new lines.
// Sequence numbers and lines with the event lost show each gap to a reader.
//
// All leases of a target share its Writer, also across reloads.
//
// # Goroutines and locks
//
// Each Writer has one goroutine for its sink, which Acquire has opened.
//
//	writersMu  the writers, and the leases of each
//	queue.mu   the lines; held while a line is copied, or a chunk for many lines is allocated
package auditlog
