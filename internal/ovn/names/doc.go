// SPDX-License-Identifier: Apache-2.0

// Package names looks up the names of one network. A snapshot of the OVN databases consists of its structures.
// It knows no rows, and it logs nothing.
//
//	addresses of a DNS row ─► Table ───┐
//	its other records ──────► RRTable ─┼──► Directory ──► Scope ──► Lookup ──► Answer
//	hostnames of ports ─────► Hostnames ───┘    (a network)   (networks of a guest)
//	                                            │            ▲
//	                                            └──► Union ─┘
//	                                         (networks that share names, and their index)
//
// Table, RRTable and Hostnames have their names in a tree: a slice in canonical order (RFC 4034, section 6.1),
// and a hash table. An update makes a new Table or RRTable from the previous one and the changed records.
// HostnamesBuilder makes new Hostnames when a port of the network changes.
//
// A Union has an inverted index of sorted postings: a term, which is the number of a name or an address, and a
// network. The index finds networks to query. It may find one too many, but never omits one. A snapshot finds
// networks and ports in a ShardedMap.
//
// All finished structures are immutable, without locks. Builders and editors belong to one goroutine. Lookup
// and Empty allocate only for a reverse name with several targets, or with targets that they complete or omit.
//
// Names are compared in canonical form, see Canonical.
package names
