// SPDX-License-Identifier: Apache-2.0

// Package ovsdb is a streaming client for the monitors of an OVSDB server (RFC
// 7047, with monitor_cond, monitor_cond_change and update2 of ovsdb-server(7)). It knows
// no schema but that of _Server.
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
// Client.Run does all of this on its goroutine, one session after the other, each with the
// next endpoint; there is no other goroutine. SetConditions may be called from any:
// Client.mu guards the conditions, and the connection whose read it ends. It is not held
// while a Receiver is called.
package ovsdb
