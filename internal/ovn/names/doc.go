// SPDX-License-Identifier: Apache-2.0

// Package names looks up the names of one network. It knows no OVN rows, and it logs nothing.
//
//	addresses of a DNS row ─► Table ───┐
//	its other records ──────► RRTable ─┼──► Directory ──► Scope ──► Lookup ──► Answer
//	hostnames of ports ─────► Hostnames ───┘    (a network)   (networks of a guest)
//	                                            │            ▲
//	                                            └──► Union ─┘
//	                                         (networks that share names, and their index)
//
// Table, RRTable and Hostnames have a tree of names: a slice in canonical order (RFC 4034, section 6.1), and
// a hash table. An update makes a new Table or RRTable from the previous one and the changed records.
//
// A Union has an inverted index of sorted postings: a term, which is a hash of a name or an address, and a
// network. The index may find one network too many, but never omits one. A Directory of many rows has the
// same index of its rows.
//
// Finished structures are immutable, without locks. Builders and editors belong to one goroutine. Lookup and
// Empty allocate only for a reverse name with several targets, or with targets that they complete or omit.
package names
