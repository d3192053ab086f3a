// SPDX-License-Identifier: Apache-2.0

// Package interest decides which rows to request from a database, and reports which of them have come.
//
//	Southbound, Northbound  conditions for wanted rows
//	Monitor                 conditions wanted, sent and acknowledged
//	Coverage                networks, nodes and ports whose rows have come
//
// With Monitor Local, rows lead to further conditions: a port of this chassis to its network, a network to
// its ports and DNS rows, a router's port to the networks behind it.
package interest
