// SPDX-License-Identifier: Apache-2.0

// Package rules holds the rules of one response policy zone, and finds the rule that a name or an address
// triggers (draft-vixie-dnsop-dns-rpz-00).
//
//	master file ─► Read ─┐
//	                     ├─► Builder.Add, a record at a time ─► Builder.Rules ─► *Rules
//	transfer ────────────┘                                                         │
//	a delta ────► Rules.Edit ─► Builder.Delete, Builder.Add ─► Builder.Rules       │
//	                                           Rules.Name, Rules.Address ◄─ query ─┘
//
// Rules are immutable and small: a name takes less than 100 bytes. Only addresses have pointers. The package
// has no goroutines and no locks; a Builder is for one goroutine.
package rules
