// SPDX-License-Identifier: Apache-2.0

// Package punt takes the packets that a bridge punts, and answers, resumes or drops each. It
// knows nothing of Corefiles, and has who sent a packet and the plugin chains from its [Config].
//
// A packet is one packet-in: a frame, and what the switch says of where it came from. One
// that may be resumed is resumed once at most. An [Exchange] is one DNS message of a guest and its
// one answer. A transport stands behind it: the datagram that brought it, which is answered
// by a packet-out, or the TCP connection that it came by; or the first query of such a
// connection, which most often is the only one, and then stands for the whole of it.
//
//	Channel.PacketIn
//	 ├─ UDP ─► Channel.query ─► admission.admit ─► datagram.run ─┐
//	 ├─ TCP ─► Channel.segment ─► tcp.Stack ─► Intake.takeFirst ─► firstQuery.run
//	 │                               └─► connection.serve ─► connection.query
//	 │                                                           │
//	 │            Chains ◄─ Exchange.ask ◄─ Exchange.validate ◄──┘
//	 │               └─► writer.WriteMsg ─► Exchange.reply ─► transport.send
//	 ├─ ARP, neighbour solicitation ─► Channel.neighbor ─► packet-out
//	 └─ probe of the lease ─► probe.run ─► Channel.probeBack
//
// Goroutines:
//
//   - The reader of a connection to the switch calls [Channel.PacketIn], which must not
//     block. It answers ARP and takes segments of TCP itself, since nobody has to be waited
//     for. It also runs datagrams and first queries of connections, where the chains answer
//     from memory.
//   - Workers run all other exchanges, in number bounded by the limits on queries in flight.
//   - An [Intake] has one goroutine that accepts TCP connections, one for each of them that has
//     brought more than its first query, or is idle, and one that answers for chains that take
//     too long (watch).
//   - [Intake.Ask] has the chains answer an operator on one goroutine, which may outlive it.
//
// An answer over TCP that the guest has no room for waits in connection.send, that is in
// tcp.Conn.Send: on the worker of its chain, or at the deadline on a goroutine of its own.
//
// Locks:
//
//	counts.mu      the free slots, and which guests and networks are counted; readers admit
//	firstRecord.mu   whether the connection of a first query goes on
//	connection.mu  whether the connection ends, and until when it may be idle
//	Intake.mu      which servers still have queries in flight
//
// None is held while a chain is asked, nor while another one is taken, but that connection.mu is taken
// with firstRecord.mu held. An answer over UDP takes none.
package punt

import clog "github.com/coredns/coredns/plugin/pkg/log"

var log = clog.NewWithPlugin("ofpunt")
