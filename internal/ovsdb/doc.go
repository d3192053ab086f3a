// SPDX-License-Identifier: Apache-2.0

// Package ovsdb is a streaming client for the monitors of an OVSDB server (RFC
// 7047, with monitor_cond, monitor_cond_change and update2 of ovsdb-server(7)).
//
// It keeps no replica. Rows go to a Receiver one by one as their bytes come in,
// so that a reply of any size costs one row of memory, and the Receiver keeps
// only what it needs.
package ovsdb
