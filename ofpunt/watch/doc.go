// SPDX-License-Identifier: Apache-2.0

// Package watch carries what has become of each query from where it happens to operators who look on,
// and makes the lines of `puntctl watch` and the tables of `puntctl top` of it.
//
//	punt ──Publish──► Feed ──filter, limiter──► ring ──► Lines ──► a line for each query
//	                   ├─────filter───────────► ring ──► Top ────► the most frequent, at intervals
//	                   └──────────────────────► history ─► Lines, for --last and --since
//
// Publish never waits. It counts an event as lost if a ring is full, and stores no copy in the history if the slot
// is in use. It wakes no reader: a reader looks at its ring several times a second. Without a reader and a history,
// it is two loads of a pointer.
//
// The package knows nothing of sockets, switches and plugins, and has no goroutine. Feed.mu guards who
// listens; no query takes it.
package watch
