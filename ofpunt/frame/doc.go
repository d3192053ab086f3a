// SPDX-License-Identifier: Apache-2.0

// Package frame decodes punted Ethernet frames and builds replies: UDP datagrams, TCP segments, ARP requests, neighbour
// solicitations, and the probe of the lease. It also announces MAC addresses. It does not know payloads.
//
//	frame ── KindOf ──► UDP.Decode ──────► Ends, payload ──► AppendDatagram ──► frame
//	                    TCP.Decode ──────► Ends, segment ──► AppendSegment
//	                    Neighbor.Decode ─► Neighbor ───────► AppendReply
//	                    ParseProbe ──────► token      ◄───── AppendProbe
//	                                       address    ──────► AppendAnnouncement ──► frame
//
// All functions are pure. Guests are untrusted: decoders check lengths, bound loops by the frame, and return a [Refusal]
// for a frame that cannot be answered safely. Decoding allocates nothing. A failed Decode does not change its receiver.
package frame
