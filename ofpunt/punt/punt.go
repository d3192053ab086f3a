// SPDX-License-Identifier: Apache-2.0

// Package punt answers, resumes or drops each packet that a bridge punts. It knows nothing of Corefiles: a
// [Config] has the guests and the plugin chains.
//
// A packet is one packet-in: a frame with its registers. An [Exchange] is a guest's DNS message and its answer. Its
// transport is a UDP datagram, or the first query or a later message of a TCP connection.
//
//	Channel.PacketIn                                                          channel.go
//	 ├─ UDP ─► Channel.query ─► admission.admit ─► datagram.run ─────────┐    datagram.go
//	 ├─ TCP ─► Channel.segment ─► tcp.Stack                              │    tcpsegment.go
//	 │                             ├─► Intake.takeFirst ─► firstQuery.run│    tcpfirstquery.go
//	 │                             └─► connection.serve ─► message.run ──┤    tcpconnection.go
//	 │            Chains ◄─ Exchange.ask ◄─ Exchange.validate ◄──────────┘    exchange.go, validate.go
//	 │               └─► writer.WriteMsg ─► Exchange.reply ─► transport.send  writer.go, exchange.go
//	 ├─ ARP, neighbour solicitation ─► Channel.neighbor ─► packet-out         neighbor.go
//	 └─ probe of the lease ─► probe.run ─► Channel.probeBack                  channel.go
//
// Goroutines:
//
//   - The reader of a connection to the switch calls [Channel.PacketIn], which must not block. It answers ARP, takes
//     TCP segments, and runs datagrams and first queries that the chains answer from memory (reader.go). If a query
//     needs another plugin, its goroutine leaves the reader to a worker.
//   - Workers run all other exchanges. The limits on queries in flight bound their number.
//   - An [Intake] has a goroutine that accepts TCP connections, and one that answers at the deadline (watch). Each
//     TCP connection that is idle or past its first query has one.
//   - [Intake.Ask] runs the chains on a goroutine that may outlive the call.
//
// A TCP answer without room at the guest waits in tcp.Conn.Send, on the worker of its chain or, at the deadline, on
// its own goroutine.
//
// Locks:
//
//	counts.mu        free slots, counted guests and networks; readers admit
//	firstRecord.mu   the handover of a first query's connection
//	connection.mu    the end and idle time of a connection
//	Intake.mu        servers with queries in flight
//
// No lock is held while a chain runs. Only connection.mu is taken with another lock held, firstRecord.mu. An answer
// over UDP takes none.
package punt

import clog "github.com/coredns/coredns/plugin/pkg/log"

var log = clog.NewWithPlugin("ofpunt")
