// SPDX-License-Identifier: Apache-2.0

// Package ovsdb is a streaming client for the monitors of an OVSDB server (RFC 7047, with
// monitor_cond_since, monitor_cond_change and update3 of ovsdb-server(7)). The server is Open vSwitch
// 2.12 or later. The package knows no schema except the one of _Server.
//
// The client has no copy of the database. It passes each row to a Receiver while the bytes arrive, so a
// reply of any size costs the memory of one row, and the Receiver stores the columns that it needs.
//
//	server ──bytes──► session.Read ──► scanner ──► decoder ──► Receiver.Row
//	                                     JSON tokens  │ messages
//	                                                  ▼
//	       ◄─requests, echoes── session.step ──► Receiver.Conditions, Commit
//	                                ▲
//	  SetConditions: a new where ───┤ ends the read that waits
//	  Resync: all contents again ───┘
//
// # Reconnecting
//
// Servers of a cluster, and relays, remember the last 100 transactions. After a reconnect the client asks
// for the changes since the last transaction of its rows, with the conditions of its rows. No Reset
// comes, and a change of conditions may follow. The client reads all contents again in two cases: the
// server does not remember the transaction, or the connection was cut while the state of the rows was
// uncertain, see resumePoint. A later process can go on from a Position in the same way.
//
// The client refuses a server that is known to be behind the rows it has. To know this it polls each
// server for its last transaction and its Raft index, see polling.
//
// # Goroutines
//
// Client.Run does all of this on its own goroutine, one session after the other, each with the next
// endpoint. Any goroutine may call SetConditions and Resync: Client.mu guards the conditions and the
// connection whose read they end. Client.mu is not held during a call of the Receiver.
package ovsdb
