// SPDX-License-Identifier: Apache-2.0

// Package watch publishes query outcomes to `puntctl watch` and `puntctl top`, and makes their lines and tables.
//
//	punt ──Publish──► Feed ──filter, limiter──► ring ──► Lines ──► a line for each query
//	                   ├─────filter───────────► ring ──► Top ────► the most frequent, at intervals
//	                   └──────────────────────► history ─► Lines, for --last and --since
//
// Publish never waits. It counts an event as lost if a ring is full, and skips the history if the slot is in use.
// Readers poll their rings several times a second. Without readers and history Publish loads two pointers.
//
// The package knows no sockets, switches and plugins, and has no goroutine. Feed.mu guards the list of readers; no
// query takes Feed.mu.
package watch
