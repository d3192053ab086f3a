// SPDX-License-Identifier: Apache-2.0

// Package flows gives a switch the desired flows and meters: flows of package placement, meters that limit guests,
// and a lease. It knows nothing of DNS, Corefiles and databases.
//
//	owner ──Desired, Heartbeat, Withdraw──► Reconciler ──event──► machine
//	worker ──ProbeBack, Open─────────►   │  ▲  ▲               │
//	reader ──FlowUpdate──────────────►   │  │  └──command──────┘
//	                                     │  │
//	log, metrics, ready ◄──Report────────┤  │
//	                                     ▼  │ one request at a time, its reply is the next event
//	                                    Switch (an *openflow.Conn)
//
// # The machine
//
// The machine decides everything: events in, commands out. It has no goroutine, clock, log or connection, so that
// scripts (testdata, TestScripts) and a model (TestAnyInterleaving) can test it. [machine.next] requests the first of
// these that is missing, and starts over after each reply:
//
//	monitor the private table     machine.go
//	barrier, behind flow updates
//	who owns the flows?           ownership.go
//	flows of earlier processes    orphans.go
//	meters                        meters.go
//	OVN's DNS stage               stage.go, diff.go
//	what should be installed      plan.go
//	what is                       observed.go
//	the difference                diff.go
//	destinations by answers       openings.go
//	adopted connections           connections.go
//
// The switch reports a change in several flow updates, so the machine decides only after a barrier behind them. The
// machine makes a change only directly after a barrier, since the process may have been stopped before. It restores
// flows that another program removes. The process with the highest generation owns the flows (ownership). A probe
// that returns through the switch renews the hard timeout of the lease flow (lease).
//
// The plan is updated by guest, and compared only after a change: a changed record costs microseconds, whatever the
// number of guests.
//
// # Flows of earlier processes
//
// Flow monitors show the generations of earlier processes. The machine reads each generation's flows by whole cookie,
// which Open vSwitch indexes (ofproto/ofproto.c, collect_rules_loose); with a mask it would examine every flow. Once
// in its life, the process searches all other tables, some at each heartbeat.
//
// # What outlives a process
//
// Withdraw.Keep leaves the drop and entry flows of closed guests, and all egress flows. The next process finds them
// by generation, and openings by table.
//
// # Goroutines and locks
//
// The owner, one goroutine, calls Handle and gets the reports. The connection's reader calls FlowUpdate, and workers
// call ProbeBack: neither waits for the owner. Reconciler.mu guards the updates; the probe's token is atomic. The
// package's only goroutine is the timer of a retry.
package flows
