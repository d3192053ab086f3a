// SPDX-License-Identifier: Apache-2.0

// Package ovn turns the rows of the OVN databases into snapshots of networks, guests
// and names. It is the only place that knows the schemas ovn-sb(5) and ovn-nb(5).
//
//	OVN_Southbound, OVN_Northbound
//	  │ rows, as far as conditions ask for them
//	  ▼
//	receiver                      parses and stages a transaction, then applies it
//	  │
//	  ▼
//	southbound, northbound        rows as structs (package rows) and indexes of them
//	  │ what has changed
//	  ▼
//	world                         marks networks as dirty, sets the conditions
//	  │ build
//	  ▼
//	Snapshot                      networks, guests, scopes (names in package names)
//	  │ Guest, PortByName, RouterScope ...
//	  ▼
//	Scope.Lookup                  an answer
//
// # Which rows
//
// With Monitor All everything is read. With Local only the networks are that are wanted,
// so rows lead to conditions, and these to further rows: a port of the local chassis makes
// its network wanted, the network its ports and DNS rows, a router's port the network
// behind it. A network is complete, and in a snapshot, once all databases have acknowledged
// the conditions that ask for it.
//
// Southbound says which networks there are where it is read, else Northbound does: see
// topology.
//
// # Files
//
//	source, registry, requests, receiver  the life of a Source, its callers, its clients
//	config, reference                     what a caller asks for
//	southbound*, northbound*              the databases, and which rows are wanted of them
//	chassis, datapath, binding, dnsstage, copp, logicalswitch, switchport, router, dhcp, dnsrow
//	                                      one kind of row each; values parses their columns
//	database, conditions, monitor         the conditions that are wanted, sent and acknowledged
//	covered                               which rows have come
//	changes, world                        what rows have changed, and the next update
//	attachments, graph, groups            what routers join
//	guest*, grace, plugged, whynot        which ports are guests here, and why others are not
//	build, ports, rowless, holders        the next snapshot
//	problems, badvalues, notices          values that can't be used, and the log
//	labels, external, candidate           what networks and ports say beside names
//	warm, warmsave                        the rows of the last process, in a file (package saved)
//	snapshot, network, port, scope, forward, lookupcache, status, totals
//	                                      what callers see
//
// # Goroutines and locks
//
// Each database has a goroutine, that of its ovsdb.Client, which delivers rows to a
// receiver. The receiver parses and stages rows without a lock, and holds Source.mu to
// apply a transaction. So rows are always those of a transaction, also in an outage.
// Another goroutine reads and writes the file of a warm start. Timers start others: for a
// snapshot that was delayed, and for the end of a grace. All of them, and the callers of a
// Source, hold Source.mu while they use rows, conditions or marks.
//
// A Snapshot and all that it refers to is immutable. It is replaced by an atomic pointer,
// so its readers take no lock. To wait for the next one is to wait for Source.Changed.
package ovn
