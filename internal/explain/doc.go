// SPDX-License-Identifier: Apache-2.0

// Package explain records the way of one query through a chain of plugins, for an operator who asks
// in the place of a guest. It knows nothing of guests, databases and sockets.
//
// CoreDNS starts a span of opentracing for each plugin whose context carries one
// (plugin.NextOrFailure). An [Explanation] is the tracer of such a context, so each plugin has a
// [Step], and a plugin of this project adds to its step what it has decided, and why:
//
//	Explanation.Context ─► ctx ─► ofpunt ─► ovnhosts ─► forward
//	                               │           │           │
//	                               ▼           ▼           ▼
//	                              Step ──────► Step ────► Step ──► connect
//	                                        Of(ctx).Notef
//
// Of is called on the path of each query. While nobody explains it is one load of a number, and
// looks nothing up in the context.
//
// # Locks
//
// Explanation.mu guards its steps. A chain may go on when nobody waits for it any more.
package explain
