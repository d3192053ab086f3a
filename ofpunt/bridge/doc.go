// SPDX-License-Identifier: Apache-2.0

// Package bridge serves Open vSwitch bridges: their OpenFlow connection, their flows, the local Open_vSwitch
// database, and what an operator sees of them. It knows neither plugins nor the text of a Corefile.
//
// # The life of a bridge
//
// The first [Server] for a bridge starts the bridge, and it lives on through reloads until no server is for it
// ([Registry]). It has one session after the other. A session is one OpenFlow connection.
//
//	Registry.Serve ──setServer──► Bridge ──connect──► session ──Want (wanted.go)──► flows.Reconciler
//	                                ▲ │                  ▲ │                              │
//	local database ─────────────────┘ └──ports.Owners────┘ └────────────◄── Report (report.go)
//	(local.go)                                          log, metrics, readiness
//
// A reload tries the new servers first: Registry.Try, then Registry.try and tryReplacement or tryNewBridge for
// each (try.go). AwaitDatabases and Serve follow, and Stop for the server before.
//
// # Goroutines and locks
//
// Each bridge has these goroutines:
//   - Bridge.run makes the sessions. Within a session it owns the flows (session.run): only it calls the
//     Reconciler, desired and reporter.
//   - The reader of the connection calls session.handler, which must not block.
//   - followLocal reads the local database. For each view of the database awaitDrained waits for a barrier.
//   - askSwitch waits for a barrier when the database goes away.
//   - retire waits, for each session that a reload replaces, until the session is drained.
//
// The locks, in the order in which they are taken, before the lock of an ovndb.Source:
//
//	Registry.mu       which bridges there are
//	Bridge.mu         who reads the local database, and what was logged of it
//	stall.mu          whether the switch waits for the local ovsdb-server; no other lock is taken under it
//	acceptedConns.mu  connections that switches have made during a trial
//
// An operator reads [State], which is made of atomic values. counter.semaphore lets one request at a time ask
// the switch for counters. No query takes a lock: the server that answers, the connection and the owners of ports
// are read from atomic pointers.
package bridge

import clog "github.com/coredns/coredns/plugin/pkg/log"

var log = clog.NewWithPlugin("ofpunt")
