// SPDX-License-Identifier: Apache-2.0

// Package source updates the rules of response policy zones from files, and by full (AXFR, RFC 5936) and
// incremental transfers (IXFR, RFC 1995). Server blocks, and the Corefiles before and after a reload, share
// the rules of a zone from one place.
//
//	Corefile ─► Acquire ─► Source ─┬─ follow   a file, looked at every second
//	NOTIFY ─► Notify ──────────────└─ refresh  primaries, as often as the SOA record says
//	                                   │ rules.Read, rules.Builder, Rules.Edit
//	                                   ▼
//	query ─► Source.Rules, an atomic pointer
//
// Each Source has one goroutine, which owns all of it except the pointer and the status. Source.mu guards the
// status, and is not held while a zone is read.
package source
