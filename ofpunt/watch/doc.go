// SPDX-License-Identifier: Apache-2.0

// Package watch carries what has become of each query from where it happens to operators who look on,
// and makes the lines of `puntctl watch` and the tables of `puntctl top` of it.
//
//	punt ──Publish──► Feed ──filter, limiter──► ring ──► Lines ──► a line for each query
//	                   └─────filter───────────► ring ──► Top ────► the most frequent, at intervals
//
// To publish never waits: it takes no lock, and who finds a ring full counts the event as lost. Nobody
// is woken for an event either: a reader looks at its ring several times a second. While nobody listens,
// it is one load of a pointer.
//
// The package knows nothing of sockets, switches and plugins, and has no goroutine. Feed.mu guards who
// listens; no query takes it.
package watch
