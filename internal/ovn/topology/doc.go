// SPDX-License-Identifier: Apache-2.0

// Package topology has the rows of OVN_Southbound and OVN_Northbound as structs, with indexes of them, and the
// graph of the switches and routers that these rows describe. A file for each kind of row has its columns and the
// callback that notes what a change of the row means: see [Contents].
//
// The package does not know which rows were asked for, or which ports are guests. All types need the lock of their
// owner, except that rows are staged without it: see package rows.
package topology
