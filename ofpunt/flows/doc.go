// SPDX-License-Identifier: Apache-2.0

// Package flows decides what should be installed in a switch, observes what is, and changes the
// difference: the flows of package placement, the meters that limit guests, and the lease flow's
// lease. It knows nothing of DNS, of Corefiles and of databases.
//
//	owner ──Desired, Heartbeat, Withdraw──► Reconciler ──event──► machine
//	worker ──ProbeBack───────────────►   │  ▲  ▲               │
//	reader ──FlowUpdate──────────────►   │  │  └──command──────┘
//	                                     │  │
//	log, metrics, ready ◄──Report────────┤  │
//	                                     ▼  │ one request at a time, its reply is the next event
//	                                    Switch (an *openflow.Conn)
//
// # The machine
//
// All decisions are in the machine: events in, commands out. It has no goroutine, no clock,
// no log and no connection, so that scripts and a model test it (testdata, TestScripts,
// TestAnyInterleaving). Its shape is that of a reconciler: [machine.next] reads as a list of
// what has to be known or done, in the order in which one needs the other, and the first
// that is missing is requested. Where a decision stood does not have to be remembered: the
// reply changes what is known, and the list is gone through again.
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
//
// Two rules make it safe beside others who change the switch. Flow updates come one by one, so
// nothing is decided before a barrier has come back behind them. And flows and meters are
// changed directly after a barrier only, since this process may have been stopped for any time
// before.
//
// A flow that somebody else removes or changes is put back: observed.update counts it as lost,
// machine.difference finds it missing. Which of several processes owns the flows is decided by
// generations (ownership). The lease flow has a hard timeout; it is renewed when a probe has come
// back through the switch (lease), and it is left to expire otherwise.
//
// The plan is updated guest by guest, and compared with what is installed only where one of the
// two has changed: a changed record costs some microseconds, with however many guests.
//
// # Flows of earlier processes
//
// The flow monitors report those in the private table, the lease flows and the entry flows. For each
// generation that is found so, the switch is asked for all flows with that whole cookie, of
// which Open vSwitch has an index (ofproto/ofproto.c, collect_rules_loose): what a process has
// put into the table of a stage that has moved since is found at no cost. A mask on the cookie would have
// the switch look at every flow that it has, at once. What this can't find, the flows of a
// process of whose private table nothing is left, is searched table by table, some tables at
// each beat, once in the life of a process.
//
// # Closed guests
//
// The flow that drops the packets of a closed guest without a lease, and the entry flows of that guest, outlive the
// process. A process that ends removes all other flows (withdraw). The next process finds the rest by its generation,
// like flows of a process that was killed.
//
// # Goroutines and locks
//
// The package has no goroutine but that of the timer of a retry. The owner of the Reconciler is
// one goroutine, which calls Handle and is called back with reports. The reader of the
// connection calls FlowUpdate, and workers call ProbeBack: Reconciler.mu guards the updates,
// the token of the probe is atomic, and neither of them waits for the owner.
package flows
