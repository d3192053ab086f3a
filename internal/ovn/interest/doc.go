// SPDX-License-Identifier: Apache-2.0

// Package interest decides which rows to ask a database for, and which of them have come.
//
//	Southbound, Northbound  rows and requests in, conditions out
//	Monitor                 conditions wanted, sent and acknowledged
//	Coverage                networks, nodes and ports whose rows have come
//
// With Monitor Local, rows lead to conditions, and these to further rows: a port of this chassis to its network, the
// network to its ports and DNS rows, the port of a router to the networks behind it. Functions have no state, and
// Monitor does no I/O.
package interest
