// SPDX-License-Identifier: Apache-2.0

// Package control is the unix socket through which an operator queries this process, with puntctl or curl:
// HTTP with JSON. It knows nothing of OVN, OpenFlow and DNS. Other packages add to a [Server] a part of the
// status, an answer, or a stream.
//
//	puntctl, curl ──► socket ──screen──► http.Server ──► AddStatus, Answer, Stream
//	                  0600,    who is it? limits of      what the owners of the state
//	                  one of   is there   time, size     have added, on goroutines of
//	                  a time   room?      and number     the server's
//
// Only root and the user of this process are let in, by the mode of the socket and, should
// somebody have changed that, by the credentials of the peer (unix(7), SO_PEERCRED). All that a
// client can take is bounded, so one that misbehaves takes nothing from guests: connections,
// answers that are made at once, streams, the size of a request, the time of each read and
// write.
//
// # The life of the socket
//
// [Server.Use] opens it, moves it or closes it; a reload that keeps the path keeps the listener
// and its connections. The socket of a process that has ended is replaced. Where one that lives
// has it, as during a hand-over, the socket is opened once that one is gone.
//
// # Goroutines and locks
//
// One goroutine accepts, and each connection has its own. One more waits for a socket that
// another process has. Server.mu guards which socket is open; no query takes it.
package control
