// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"iter"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Graph shows which switches and routers are joined. Its nodes are logical switches and routers, by the UUIDs
// of Datapath_Binding, or of Northbound rows with Northbound alone.
//
// The links of a provider network, which has a localnet port, are never followed.
type Graph interface {
	// Nodes yields the nodes that have rows.
	Nodes(yield func(ovsdb.UUID) bool)
	// NodesOf yields the nodes of a network.
	NodesOf(id origin.Network) iter.Seq[ovsdb.UUID]
	// NetworkOf is the network of a node, zero for a router.
	NetworkOf(node ovsdb.UUID) origin.Network
	// isProvider reports whether a node is a network with a localnet port.
	isProvider(node ovsdb.UUID) bool
	linksOf(node ovsdb.UUID) iter.Seq[link]
}

// Peer refers to the port at the other end of a link, by name in Southbound and by row in Northbound. The other
// field is empty.
type Peer struct {
	Name string
	ID   ovsdb.UUID
}

func comparePeers(a, b Peer) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), a.ID.Compare(b.ID))
}

// Covered reports which rows have come.
type Covered interface {
	// Node reports whether the rows of a node and of all its links have come.
	Node(ovsdb.UUID) bool
	// Peer reports whether the port at the other end of a link has come, if it exists.
	Peer(Peer) bool
}

type link struct {
	// port is the port at the other end.
	port Peer
	// known is set if the row of the other node has come. to is this node.
	known bool
	to    ovsdb.UUID
	// mutual is set if both ends name each other. Other links join nothing.
	mutual bool
	// sibling is set if to is another row of the same network, which northd is replacing. The link then has no
	// port.
	sibling bool
}

// isFollowed reports whether a link joins its other end to a node that is no provider network.
func (l link) isFollowed(g Graph) bool { return l.known && l.mutual && !g.isProvider(l.to) }

// Walk visits from and all nodes that visit returns, each once, and nearer ones first.
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

// Reach follows links through known rows. It returns the nodes that it reaches, and the peers to request, both
// sorted. These are unknown peers, and peers on other nodes, whose rows would otherwise be dropped and requested
// again.
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

// Neighbours appends the covered nodes that are joined to node. complete reports whether all of them are
// covered.
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
