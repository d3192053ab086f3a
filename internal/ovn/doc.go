// SPDX-License-Identifier: Apache-2.0

// Package ovn answers from the state of the OVN databases: a [Snapshot] has the networks, their ports and
// their names at one time.
//
//	Snapshot.Guest, PortByName       who asks: the port that a packet came from
//	Snapshot.SwitchScope, RouterScope which networks' names that port sees
//	Scope.Lookup                     the answer (package names)
//
// A Snapshot and all that it refers to are immutable, so readers take no lock. [Editor] makes the next Snapshot.
// Package ovndb reads the databases, and replaces the Snapshot when rows change.
//
// # Packages
//
//	names     names and records of a network
//	problem   values of the databases that can't be used
//	topology  rows of both databases, their indexes, and the graph of switches and routers
//	interest  which rows to ask for, and which have come
//	binding   which ports are guests of this chassis, and why others are not
//	build     networks and router scopes, as functions of rows
//	saved     the file of rows for the next process
//	ovndb     the Source: connections, the lock, updates, the log
//
// Each imports only packages above it in this list, and this package. Only topology knows the schemas of ovn-sb(5)
// and ovn-nb(5).
package ovn
