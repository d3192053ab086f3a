// SPDX-License-Identifier: Apache-2.0

// Package bridge serves Open vSwitch bridges: their OpenFlow connection, their flows, the local Open_vSwitch database,
// and what operators see. It knows neither plugins nor the text of a Corefile.
//
// The first [Server] for a bridge starts the bridge. It ends when a reload leaves no server for it ([Registry]). A session
// is one OpenFlow connection.
//
//	Registry.Serve ──setServer──► Bridge ──connect──► session ──Want (wanted.go)──► flows.Reconciler
//	                                ▲ │                  ▲ │                              │
//	local database ─────────────────┘ └──ports.Owners────┘ └────────────◄── Report (report.go)
//	(local.go)                                          log, metrics, readiness
//
// A reload calls Registry.Try (try.go), AwaitDatabases and Serve for the new servers, and Stop for the previous ones.
//
// Goroutines of a bridge:
//   - Bridge.run makes the sessions. session.run owns the Reconciler, desired and reporter.
//   - The connection's reader calls session.handler, which must not block.
//   - followLocal reads the local database, and starts awaitDrained for each view.
//   - askSwitch waits for a barrier when the database goes away.
//   - retire drains a session that a reload replaces.
//
// Locks, in the order in which they are taken, before the lock of an ovndb.Source:
//
//	Registry.mu       the bridges
//	Bridge.mu         the reader of the local database, and the logged chassis
//	stall.mu          whether the switch waits for the local ovsdb-server; no lock is taken under it
//	acceptedConns.mu  connections made during a trial
//
// counter.semaphore admits one request for counters at a time. Queries read atomic pointers and take no lock of this
// package; [State] takes only stall.mu.
package bridge

import clog "github.com/coredns/coredns/plugin/pkg/log"

var log = clog.NewWithPlugin("ofpunt")
