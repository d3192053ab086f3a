// SPDX-License-Identifier: Apache-2.0

// Package ofpunt is the CoreDNS plugin that takes its queries from an Open
// vSwitch bridge instead of a socket: flows punt each DNS packet of a guest to
// this process (an OpenFlow packet-in), the server blocks that name the bridge
// answer it, and the answer returns through the port it came from (a
// packet-out).
//
// The package connects the servers of a Corefile to bridges. Package chain compiles the server blocks,
// package flows decides which flows are installed and puts a lost flow back, package punt takes a punted
// packet to the chains, and package tenantcache decides which guests get a stored answer.
//
// # The life of a bridge
//
// The first server that names a bridge starts it, and it lives on through reloads until no
// server names it (registry). It has one session after the other, a session being one
// OpenFlow connection.
//
//	Corefile ──setServer──► bridge ──connect──► session ──Want (desired.go)──► flows.Reconciler
//	                          ▲ │                  ▲ │                                │
//	local database ───────────┘ └──ports.Owners────┘ └──────────────◄── Report (report.go)
//	(localwatch.go)                                       log, metrics, readiness
//
// # The life of a Corefile
//
// An [instance] is one reading of a Corefile, with a server for each bridge that it names.
//
//	setup           one block is parsed                      setup.go, chain.NewBlock
//	finishParsing   blocks are checked, our handlers added   instance.go, chain.Prepare
//	build           servers are compiled                     server.go, chain.Compile
//	takeOver        the bridges get the new servers          instance.go
//	shutDown        the old servers drain                    instance.go
//
// A reload (SIGUSR1 or the plugin reload, in internal/lifecycle) calls [Try] first: reloadtrial.go
// looks whether what the new Corefile names is there. Only if it is, caddy gets the Corefile.
// If a later plugin fails to start, rollBack gives the bridges to the old servers again.
//
// # Goroutines and locks
//
// Each bridge has these goroutines: run makes the sessions, and within one it is the owner of
// the flows (session.run): it alone calls the Reconciler, desired and reporter. The reader of
// the connection calls session.handler, which must not block. followLocal reads the local
// database. For each view of it awaitDrained waits for a barrier. When the database goes away,
// askSwitch waits for a barrier, too. For each session that a reload replaces, retire waits until
// it is drained.
//
//	registry.mu       which bridges there are
//	serving           which instance has them; held during takeOver, rollBack and stop
//	bridge.mu         who reads the local database, and what was logged of it
//	stall.mu          whether the switch waits for the local ovsdb-server
//	acceptedConns.mu  connections that switches have made during a trial
//	stage.mu          the callback that is to be added behind those of all plugins
//
// What an operator asks by the control socket (package control) is answered on goroutines of its
// own, by the files tell*.go: from snapshots, and from what the session tells of itself in an atomic
// pointer (bridge.told). hitCounter.turn lets one of them at a time ask the switch for counters. Those
// who watch queries (tellwatch.go) have a goroutine of the server's each, which reads a ring.
//
// No query takes any of them: who answers, the connection and the owners of ports are read
// from atomic pointers. The order is serving, registry.mu, bridge.mu, and
// then the lock of an ovndb.Source. Under stall.mu no other is taken.
package ofpunt

import clog "github.com/coredns/coredns/plugin/pkg/log"

const name = "ofpunt"

var log = clog.NewWithPlugin(name)

// NotReady returns a reason for each bridge of the process that is not served, and one if there
// is no bridge yet.
func NotReady() []string { return bridges.notReady() }
