// SPDX-License-Identifier: Apache-2.0

// Package names answers what a name means in one network: the lookup structures
// that a snapshot of the OVN databases is made of. It knows no database and no
// rows, and it logs nothing.
//
//	addresses of a DNS row ─► Table ───┐
//	its other records ──────► RRTable ─┼──► Directory ──► Scope ──► Lookup ──► Answer
//	hostnames of ports ─────► Hosts ───┘    (a network)   (networks of an asker)
//	                                            │            ▲
//	                                            └──► Joined ─┘
//	                                         (networks that share names, and their index)
//
// A Table is made from the Table before it and the records that have changed, and so is an
// RRTable. Hosts
// are made anew with HostsBuilder when a port of the network changes. The index of a Joined is
// an inverted one: sorted postings, each of a term (a number that stands for a name or an
// address) and a network. It finds the networks to ask, and these answer; so it may name one too
// many, and what it may not do is leave one out. ShardedMap is
// what a snapshot finds networks and ports in.
//
// Every finished structure is immutable: any number of goroutines may read it, and
// there are no locks. Builders and editors belong to one goroutine. Lookup and
// Empty allocate only for a reverse name whose targets they have to complete or
// to filter.
//
// Names are compared in canonical form, see Canonical.
package names
