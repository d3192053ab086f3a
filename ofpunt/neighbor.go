// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"net/netip"
	"slices"

	"github.com/puntdns/puntdns/ofpunt/frame"
)

// resolverMAC is the hardware address of the resolver addresses, on every switch
// and node alike, so that a guest that migrates keeps its neighbour entry. It is
// locally administered.
var resolverMAC = [6]byte{0x02, 0x00, 'd', 'n', 's', 0x35}

// neighbor answers an ARP request or a neighbour solicitation for a resolver
// address.
func (q *query) neighbor() {
	var n frame.Neighbor
	if err := n.Decode(q.punt.Data); err != nil {
		q.pass(dropped, refusal(err))
		return
	}
	a, ok := q.asker(n.Tagged)
	if !ok {
		q.pass(dropped, reasonOrigin)
		return
	}
	if !slices.ContainsFunc(q.server.options.Addresses, func(a netip.AddrPort) bool { return a.Addr() == n.Target }) {
		q.pass(dropped, reasonForeign)
		return
	}
	if !q.done.CompareAndSwap(false, true) {
		return
	}
	tag := a.tag
	if n.Tagged {
		tag = 0
	}
	b := buffers.get()
	defer buffers.put(b)
	b.frame = n.AppendReply(b.frame[:0], resolverMAC, true)
	if err := q.packetOut(b, tag); err != nil {
		q.count(dropped, reasonConnection)
		return
	}
	q.count(answered, reasonNeighbor)
}
