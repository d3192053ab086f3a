// SPDX-License-Identifier: Apache-2.0

// Package ovsdb is a streaming client for the monitors of an OVSDB server (RFC
// 7047, with monitor_cond_since, monitor_cond_change and update3 of ovsdb-server(7), which Open vSwitch
// has from 2.12 on). It knows no schema but that of _Server.
//
// It has no replica of the database. Rows go to a Receiver one by one as their bytes come
// in, so that a reply of any size costs one row of memory, and the Receiver stores only
// what it needs.
//
//	server ──bytes──► session.Read ──► scanner ──► decoder ──► Receiver.Row
//	                                     JSON tokens  │ messages
//	                                                  ▼
//	       ◄─requests, echoes── session.step ──► Receiver.Conditions, Commit
//	                                ▲
//	  SetConditions: a new where ───┤ ends the read that waits
//	  Reread: the contents anew ────┘
//
// # Connections again
//
// The servers of a cluster, and relays of it, remember the last 100 transactions. After a cut the
// client asks for what has changed since the last one that the rows reflect, with the conditions
// that they reflect; the rows go on without a Reset, and a change of conditions follows. All
// contents come where the server does not remember it, and where the cut leaves open what the rows
// reflect: within an update, and between an update and the reply to a change of conditions. See
// Position, which also has a later process go on from there. A server that is behind what was read of
// its cluster is left, as far as that is known; it is asked for at intervals, see asking.
//
// # Goroutines
//
// Client.Run does all of this on its goroutine, one session after the other, each with the
// next endpoint; there is no other goroutine. SetConditions may be called from any:
// Client.mu guards the conditions, and the connection whose read it ends. It is not held
// while a Receiver is called.
package ovsdb
