// SPDX-License-Identifier: Apache-2.0

// Package source keeps the rules of response policy zones up to date, from files and by zone transfers of
// whole zones (AXFR, RFC 5936) and of changes (IXFR, RFC 1995). Server blocks, and the Corefiles before and
// after a reload, share the rules of one zone from one place.
//
//	Corefile ─► Acquire ─► Source ─┬─ follow   a file, looked at every second
//	NOTIFY ─► Notify ──────────────└─ refresh  primaries, as often as the SOA record says
//	                                   │ rules.Read, rules.Builder, Rules.Edit
//	                                   ▼
//	query ─► Source.Rules, an atomic pointer
//
// The package does not apply rules. Each Source has one goroutine, which owns all of it except the pointer
// and the status. Source.mu guards the status, and is not held while a zone is read.
package source
