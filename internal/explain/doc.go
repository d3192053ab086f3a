// SPDX-License-Identifier: Apache-2.0

// Package explain records the path of one query through the plugins, for an operator who asks for a guest.
//
// CoreDNS starts an opentracing span for each plugin if the context has one (plugin.NextOrFailure). An
// [Explanation] is the tracer of such a context, so each plugin has a [Step]. Plugins of this project add
// notes and findings to it:
//
//	Explanation.Context ─► ctx ─► ofpunt ─► ovnhosts ─► forward
//	                               │           │           │
//	                               ▼           ▼           ▼
//	                              Step ──────► Step ────► Step ──► connect
//	                                        Of(ctx).Notef
//
// Each query calls Of, which loads one number if the process has no Explanation.
//
// # Locks
//
// Explanation.mu guards its steps. A chain may go on after the explanation has ended.
package explain
