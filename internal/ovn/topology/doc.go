// SPDX-License-Identifier: Apache-2.0

// Package topology has the rows of OVN_Southbound and OVN_Northbound as structs, with indexes, and the graph of
// the switches and routers in them. A file for each kind of row has its columns, and the callback that records
// what a change means: see [Contents].
//
// The package does not know conditions or guests. All types need the lock of their owner, except that rows are
// staged without it: see package rows.
package topology
