// SPDX-License-Identifier: Apache-2.0

// Package addnhosts follows the names that Neutron's DHCP agents write for the dnsmasq of
// each network (neutron/agent/linux/dhcp.py, _output_addn_hosts_file): a file addn_hosts in a
// folder with the UUID of the network. With routed networks the folder is in one that has
// the number of the segment.
//
//	DIR/[SEGMENT/]NETWORK/addn_hosts
//	      │ inotify(7), and a look at all files every pollInterval
//	      ▼
//	    Source: which files have changed? ─► parse ─► builder ─► Network
//	      │ publish                                                │
//	      ▼                                                        ▼
//	    Snapshot, by an atomic pointer ──────────────────────► Snapshot.Network
//
// It does not know who asks, nor the plugin that answers.
//
// A Source has two goroutines: run reads folders and files, and owns all state but the
// pointer; read passes on what inotify says. Snapshots are immutable. problemsMu guards what
// is told of files that can't be read.
package addnhosts
