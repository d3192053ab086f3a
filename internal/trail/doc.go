// SPDX-License-Identifier: Apache-2.0

// Package trail writes lines of JSON to a file or a socket, without delaying those who have
// them to write. It knows nothing of DNS.
//
//	query ─► Lease.Append ─► queue ─► Writer.run ─► sink: file, which is rotated
//	query ─►  (copies)      bounded   (goroutine)         or socket, which is connected again
//
// The lines of the queue stay there while the sink takes none: a full disk, a collector that is
// gone. When the queue is full, further ones are lost. Each line, a lost one too, has the next
// sequence number, and a line of its own tells how many were lost where. So a reader of the trail
// sees by itself what is missing.
//
// All who name one target share its Writer, across reloads of a Corefile too.
//
// # Goroutines and locks
//
// Each Writer has one goroutine, which alone uses the sink.
//
//	writersMu  which writers there are, and the leases of each
//	queue.mu   the lines; held while one line is copied, and a chunk is made now and then for many
package trail
