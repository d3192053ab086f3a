// SPDX-License-Identifier: Apache-2.0

// Package names answers what a name means in one network: the lookup structures
// that a snapshot of the OVN databases is made of. It knows no database and no
// rows, and it logs nothing.
//
//	addresses of a DNS row ─► Table ───┐
//	its other records ──────► RRTable ─┼──► Directory ──► Scope ──► Lookup ──► Answer
//	hostnames of ports ─────► Hostnames ───┘    (a network)   (networks of an asker)
//	                                            │            ▲
//	                                            └──► Union ─┘
//	                                         (networks that share names, and their index)
//
// Table, RRTable and Hostnames keep their names in a tree: a slice in canonical order (RFC 4034, section
// 6.1), so the names below a name follow it, and a hash table of the names that exist. An update
// makes a new Table or RRTable of the one before and the records that have changed. HostnamesBuilder
// makes new Hostnames when a port of the network changes. The index of a Union is
// an inverted one: sorted postings, each of a term (a number that stands for a name or an
// address) and a network. It finds the networks to ask, and these answer; so it may name one too
// many, and what it may not do is leave one out. ShardedMap is
// what a snapshot finds networks and ports in.
//
// Every finished structure is immutable: any number of goroutines may read it, and
// there are no locks. Builders and editors belong to one goroutine. Lookup and
// Empty allocate only for a reverse name that has several targets, or targets that
// they complete or leave out.
//
// Names are compared in canonical form, see Canonical.
package names
