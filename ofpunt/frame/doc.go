// SPDX-License-Identifier: Apache-2.0

// Package frame decodes the Ethernet frames that a switch punts and builds the
// frames that answer them: UDP datagrams, TCP segments, ARP requests and neighbour
// solicitations, and a probe of our own. It also builds the frame that announces where a
// hardware address is. It knows nothing of what a datagram or a segment carries.
//
//	frame ── KindOf ──► UDP.Decode ──────► Ends, payload ──► AppendDatagram ──► frame
//	                    TCP.Decode ──────► Ends, segment ──► AppendSegment
//	                    Neighbor.Decode ─► Neighbor ───────► AppendReply
//	                    ParseProbe ──────► token      ◄───── AppendProbe
//	                                       address    ──────► AppendAnnouncement ──► frame
//
// Everything is a pure function of its arguments. The frames come from guests
// that nobody trusts, so each length is checked before it is used, each walk is
// bounded by the bytes that are there, and whatever cannot be answered safely
// is refused with a [Refusal], which names the reason. Decoding allocates
// nothing, whether it succeeds or not, and leaves the receiver as it was when it
// fails.
package frame
