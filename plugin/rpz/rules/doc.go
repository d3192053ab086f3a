// SPDX-License-Identifier: Apache-2.0

// Package rules holds the rules of one response policy zone, and finds the one that a name or
// an address triggers (draft-vixie-dnsop-dns-rpz-00).
//
//	master file ─► Read ─┐
//	                     ├─► Builder.Add, a record at a time ─► Builder.Rules ─► *Rules
//	transfer ────────────┘                                                         │
//	a delta ────► Rules.Edit ─► Builder.Delete, Builder.Add ─► Builder.Rules       │
//	                                           Rules.Name, Rules.Address ◄─ query ─┘
//
// Rules are immutable, and made for size: a million names take less than 100 bytes each, and no
// pointers but those of the addresses. The package knows neither servers nor queries, and not
// where a zone is from. It has no goroutines and no locks; a Builder is for one goroutine.
package rules
