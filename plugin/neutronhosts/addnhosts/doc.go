// SPDX-License-Identifier: Apache-2.0

// Package addnhosts follows the addn_hosts files that Neutron's DHCP agents write for dnsmasq
// (neutron/agent/linux/dhcp.py, _output_addn_hosts_file). The folder of a file is the network's UUID, in
// routed networks below the segment's number.
//
//	DIR/[SEGMENT/]NETWORK/addn_hosts
//	      │ inotify(7), and a look at all files every pollInterval
//	      ▼
//	    Source: which files have changed? ─► parse ─► builder ─► Network
//	      │ publish                                                │
//	      ▼                                                        ▼
//	    Snapshot, by an atomic pointer ──────────────────────► Snapshot.Network
//
// The package knows neither guests nor the plugin that answers.
//
// A Source has two goroutines: run owns all state except the pointer; read passes on inotify events.
// Snapshots are immutable. problemsMu guards the list of unreadable files.
package addnhosts
