// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"iter"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Graph says which switches and routers are joined. Its nodes are logical switches and routers, by the
// UUIDs of Datapath_Binding, or of the Northbound rows where those are read alone.
//
// A provider's network, one with a localnet port, is a node whose links are never
// followed, in neither direction.
type Graph interface {
	// Nodes yields the nodes that have rows.
	Nodes(yield func(ovsdb.UUID) bool)
	// NodesOf yields those of a network.
	NodesOf(id origin.Network) iter.Seq[ovsdb.UUID]
	// NetworkOf is the network of a node, zero for a router.
	NetworkOf(node ovsdb.UUID) origin.Network
	// isProvider reports whether a node is a network with a localnet port.
	isProvider(node ovsdb.UUID) bool
	// linksOf yields the links from a node to others.
	linksOf(node ovsdb.UUID) iter.Seq[link]
}

// Peer is how a database refers to the port at the other end of a link: Southbound by its name,
// Northbound by its row. The other field is empty.
type Peer struct {
	Name string
	ID   ovsdb.UUID
}

func comparePortRefs(a, b Peer) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), a.ID.Compare(b.ID))
}

// Covered reports which rows have come, of all that a database has.
type Covered interface {
	// Node reports whether the rows of a node and of all its links have come.
	Node(ovsdb.UUID) bool
	// Peer reports whether the port at the other end of a link has come, if there is one.
	Peer(Peer) bool
}

// link is an edge from a node to another.
type link struct {
	// port is the port at the other end.
	port Peer
	// known is set if the row of that port's node is read. to is that node.
	known bool
	to    ovsdb.UUID
	// mutual is set if both ends name each other. A link that is not joins nothing.
	mutual bool
	// sibling is set if to is another row of the same network: northd is replacing it.
	// Then there is no port.
	sibling bool
}

// isFollowed reports whether what is at the other end of a link is joined to a node
// that is no provider's network.
func (l link) isFollowed(g Graph) bool { return l.known && l.mutual && !g.isProvider(l.to) }

// Walk visits nodes and all that visit returns as joined to them: each once, and
// nearer ones first.
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

// Reach follows links as far as rows are known. It returns all nodes that it comes to,
// and the ports that are to be asked for: those not known yet, and those that would be
// forgotten, and asked for anew, since they are on a node that it does not go to. Both
// are sorted.
func Reach(g Graph, from []ovsdb.UUID) (nodes []ovsdb.UUID, farPorts []Peer) {
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
			farPorts = append(farPorts, l.port)
		}
	}
	slices.SortFunc(farPorts, comparePortRefs)
	return nodes, slices.Compact(farPorts)
}

// Neighbours appends the nodes joined to one, of those that are covered, and reports
// whether these are all.
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
