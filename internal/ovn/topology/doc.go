// SPDX-License-Identifier: Apache-2.0

// Package topology has the rows of OVN_Southbound and OVN_Northbound as structs, with indexes, and the graph
// of their switches and routers. A file for each kind of row has its columns and its callback, see
// [Contents].
//
// The package does not know conditions or guests. All types need the lock of their owner, except that rows
// are staged without the lock: see package rows.
package topology
