// SPDX-License-Identifier: Apache-2.0

// Package explain records the path of one query through a chain of plugins, for an operator who asks for a
// guest. It knows nothing of guests, databases and sockets.
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
// Of is called on the path of each query. Without an Explanation in the process it only loads one number.
//
// # Locks
//
// Explanation.mu guards its steps. A chain may go on after the explanation has ended.
package explain
