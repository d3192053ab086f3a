// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"iter"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Graph shows which switches and routers are joined. Its nodes are UUIDs of Datapath_Binding, or of
// Northbound rows with Northbound alone.
//
// The links of a provider network, which has a localnet port, are never followed.
type Graph interface {
	Nodes(yield func(ovsdb.UUID) bool)
	NodesOf(id origin.Network) iter.Seq[ovsdb.UUID]
	NetworkOf(node ovsdb.UUID) origin.Network
	isProvider(node ovsdb.UUID) bool
	linksOf(node ovsdb.UUID) iter.Seq[link]
}

// Peer is the port at the other end of a link: Name in Southbound, ID in Northbound.
type Peer struct {
	Name string
	ID   ovsdb.UUID
}

func comparePeers(a, b Peer) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), a.ID.Compare(b.ID))
}

type Covered interface {
	Node(ovsdb.UUID) bool
	// Peer reports whether the port at the other end of a link has come, if it exists.
	Peer(Peer) bool
}

type link struct {
	port Peer
	// known is set if the row of the other node, to, has come.
	known bool
	to    ovsdb.UUID
	// mutual is set if both ends name each other. Other links join nothing.
	mutual bool
	// sibling is set if to is another row of the same network, which northd is replacing. The link has no
	// port.
	sibling bool
}

func (l link) isFollowed(g Graph) bool { return l.known && l.mutual && !g.isProvider(l.to) }

// Walk visits from and all nodes that visit returns, each once, nearer ones first.
func Walk(from []ovsdb.UUID, visit func(node ovsdb.UUID) (joined []ovsdb.UUID)) {
	seen := make(map[ovsdb.UUID]struct{}, len(from))
	var queue []ovsdb.UUID
	enqueue := func(nodes []ovsdb.UUID) {
		for _, node := range nodes {
			if _, ok := seen[node]; !ok {
				seen[node] = struct{}{}
				queue = append(queue, node)
			}
		}
	}
	enqueue(from)
	for i := 0; i < len(queue); i++ {
		enqueue(visit(queue[i]))
	}
}

// Reach returns the reached nodes and the peers to request, both sorted: unknown peers, and peers on other
// nodes, whose rows would otherwise be dropped and requested again.
func Reach(g Graph, from []ovsdb.UUID) (nodes []ovsdb.UUID, peers []Peer) {
	var links []link
	Walk(from, func(node ovsdb.UUID) (joined []ovsdb.UUID) {
		nodes = append(nodes, node)
		if g.isProvider(node) {
			return nil
		}
		for l := range g.linksOf(node) {
			if l.sibling {
				continue
			}
			links = append(links, l)
			if l.isFollowed(g) {
				joined = append(joined, l.to)
			}
		}
		return joined
	})
	nodes = ovsdb.SortUUIDs(nodes)
	for _, l := range links {
		if !l.known || !ovsdb.HasUUID(nodes, l.to) {
			peers = append(peers, l.port)
		}
	}
	slices.SortFunc(peers, comparePeers)
	return nodes, slices.Compact(peers)
}

// Neighbours appends the covered nodes that are joined to node. complete reports whether all are covered.
func Neighbours(g Graph, is Covered, to []ovsdb.UUID, node ovsdb.UUID) (all []ovsdb.UUID, complete bool) {
	if g.isProvider(node) {
		return to, true
	}
	complete = true
	for l := range g.linksOf(node) {
		switch {
		case !l.known:
			complete = complete && is.Peer(l.port)
		case !l.isFollowed(g):
		case is.Node(l.to):
			to = append(to, l.to)
		default:
			complete = false
		}
	}
	return to, complete
}
