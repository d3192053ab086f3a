// SPDX-License-Identifier: Apache-2.0

// Package addnhosts follows the files addn_hosts that Neutron's DHCP agents write for the dnsmasq of each network
// (neutron/agent/linux/dhcp.py, _output_addn_hosts_file). The folder of a file is the UUID of the network.
// Routed networks have one more folder, the number of the segment.
//
//	DIR/[SEGMENT/]NETWORK/addn_hosts
//	      │ inotify(7), and a look at all files every pollInterval
//	      ▼
//	    Source: which files have changed? ─► parse ─► builder ─► Network
//	      │ publish                                                │
//	      ▼                                                        ▼
//	    Snapshot, by an atomic pointer ──────────────────────► Snapshot.Network
//
// The package does not know guests, nor the plugin that answers.
//
// A Source has two goroutines: run reads folders and files, and owns all state except for the pointer; read passes
// on the events of inotify. Snapshots are immutable. problemsMu guards the list of files that can't be read.
package addnhosts
