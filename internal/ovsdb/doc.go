// SPDX-License-Identifier: Apache-2.0

// Package ovsdb is a streaming client for the monitors of an OVSDB server of Open vSwitch 2.12 or later (RFC
// 7047, with monitor_cond_since, monitor_cond_change and update3 of ovsdb-server(7)). It knows no schema
// except _Server.
//
// The client passes each row to a Receiver while the bytes arrive, so a reply of any size costs the memory of
// one row.
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
// Servers of a cluster, and relays, remember the last 100 transactions. After a reconnect the client asks for
// the changes since the last transaction of its rows, with their conditions; new conditions follow. It reads
// all contents again if the server has forgotten the transaction, or if the state of the rows was uncertain
// (resumePoint). A later process can go on from a Position.
//
// The client refuses a server that is behind its rows. For this it polls each server for the last transaction
// and the Raft index (polling).
//
// # Goroutines
//
// The goroutine of Client.Run does all of this. Any goroutine may call SetConditions and Resync: Client.mu
// guards the conditions, and the connection whose read they end. Client.mu is not held during calls of the
// Receiver.
package ovsdb
