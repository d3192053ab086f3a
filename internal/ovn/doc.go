// SPDX-License-Identifier: Apache-2.0

// Package ovn turns the rows of the OVN databases into snapshots of networks, guests
// and names. It is the only place that knows the schemas ovn-sb(5) and ovn-nb(5).
//
//	OVN_Southbound, OVN_Northbound
//	  │ rows, as far as conditions ask for them
//	  ▼
//	southbound, northbound        rows as structs (package rows) and indexes of them
//	  │ what has changed
//	  ▼
//	world                         marks networks as dirty, sets the conditions
//	  │ build, when the rows are a consistent picture
//	  ▼
//	Snapshot                      networks, guests, scopes (names in package names)
//	  │ Guest, PortByName, RouterScope ...
//	  ▼
//	Scope.Lookup                  an answer
//
// # Which rows
//
// With Monitor All everything is read. With Local only the networks are that are wanted,
// so conditions and rows follow each other: a port of the local chassis makes its network
// wanted, the network its ports and DNS rows, a router's port the network behind it.
// A network is in a snapshot when all databases have acknowledged the conditions that
// cover it. The files with "conditions" in their names work out what is wanted.
//
// Southbound says which networks there are where it is read, else Northbound does: see
// topology.
//
// # Where what is
//
//	source, registry, requests, receiver  the life of a Source, its callers, its clients
//	southbound*, northbound*              the databases; chassis, datapath, binding,
//	                                      dnsstage, copp, logicalswitch, switchport,
//	                                      router, dnsrow: one kind of row each
//	world, build, ports                   what is dirty, and the next snapshot
//	graph, groups, scope                  what routers join
//	grace*                                guests that are kept without a binding
//	snapshot, network, port, status       what callers see
//
// # Goroutines and locks
//
// Each database has a goroutine, that of its ovsdb.Client, which delivers rows to a
// receiver. Timers start others: for a snapshot that was put off, and for the end of a
// grace. All of them, and the callers of a Source, hold Source.mu while they touch rows,
// conditions or marks. Only the registry of Sources has a lock of its own, sourcesMu,
// and no goroutine holds both.
//
// A Snapshot and all that it leads to is immutable. It is replaced by an atomic pointer,
// so who asks takes no lock. Whoever waits for the next one waits for Source.Changed.
package ovn
