// SPDX-License-Identifier: Apache-2.0

// Package control is the unix socket through which an operator queries this process, with puntctl or curl:
// HTTP with JSON. It knows nothing of OVN, OpenFlow and DNS. Other packages add parts of the status, answers
// and streams to a [Server].
//
//	puntctl, curl ──► socket ──► listener ─────► http.Server ────► AddStatus, Answer, Stream
//	                  0600       who is it?      limits of time,   functions of other packages, on
//	                             is there room?  size and number   goroutines of the server
//
// Only root and the user of this process may connect. The mode of the socket enforces this, and SO_PEERCRED
// (unix(7)) if the mode was changed. Limits on connections, answers, streams, request size and time protect
// the guests' queries.
//
// # The life of the socket
//
// [Server.Use] opens, moves or closes the socket. A reload that keeps the path keeps the listener and its
// connections. Use replaces the socket of an ended process. While another process listens, as during a
// handover, Use waits.
//
// # Goroutines and locks
//
// One goroutine accepts, each connection has one, and one waits for another process's socket. Server.mu
// guards which socket is open. No query takes it.
package control
