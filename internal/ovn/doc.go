// SPDX-License-Identifier: Apache-2.0

// Package ovn answers from the OVN databases. A [Snapshot] has the networks, ports and names at one time.
//
//	Snapshot.Guest, PortByName       the port that a packet came from
//	Snapshot.SwitchScope, RouterScope the networks whose names the port sees
//	Scope.Lookup                     the answer (package names)
//
// All is immutable, so readers take no lock. [Editor] makes the next Snapshot. Package ovndb reads the
// databases and replaces the Snapshot.
//
// # Packages
//
//	names     names and records of a network
//	problem   unusable values of the databases
//	topology  rows of both databases, their indexes, and the graph of switches and routers
//	interest  which rows are wanted, and which have come
//	binding   which ports are guests of this chassis, and why others are not
//	build     networks and router scopes, as functions of rows
//	saved     the file of rows for the next process
//	ovndb     the Source: connections, the lock, updates, the log
//
// Each imports only packages above it, and this package. Only topology knows the schemas of ovn-sb(5) and
// ovn-nb(5).
package ovn
