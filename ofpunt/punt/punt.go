// SPDX-License-Identifier: Apache-2.0

// Package punt takes the packets that a bridge punts, and does what becomes of each.
//
// A packet is one packet-in: a frame, and what the switch says of where it came from. One
// that is paused can be resumed, once. An [Exchange] is one DNS message of a guest and its
// one answer. A transport stands behind it: the datagram that brought it, which is answered
// by a packet-out, or the TCP connection that it came by.
//
//	Channel.PacketIn
//	 ├─ UDP ─► Channel.query ─► admission.admit ─► datagram.run ─┐
//	 ├─ TCP ─► Channel.segment ─► tcp.Stack                      │
//	 │                               └─► connection.serve ─► connection.query
//	 │                                                           │
//	 │            Chains ◄─ Exchange.ask ◄─ Exchange.judge ◄─────┘
//	 │               └─► writer.WriteMsg ─► Exchange.reply ─► transport.send
//	 ├─ ARP, neighbour solicitation ─► Channel.neighbor ─► packet-out
//	 └─ probe of the lease ─► probe.run ─► Channel.probeBack
//
// Goroutines:
//
//   - The reader of a connection to the switch calls [Channel.PacketIn], which must not
//     block. It answers ARP and takes segments of TCP itself, since nobody has to be waited
//     for. It also runs datagrams, where the chains answer from memory.
//   - Workers run all other exchanges, in number bounded by the limits on queries in flight.
//   - An [Intake] has one goroutine that accepts TCP connections, one for each of them, and
//     one that answers for chains that take too long.
//
// Locks: admission.mu, for those that admit; connection.mu; Intake.mu. None is held while
// another one is taken, or while a chain is asked. Those that answer take none.
package punt

import clog "github.com/coredns/coredns/plugin/pkg/log"

var log = clog.NewWithPlugin("ofpunt")
