// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"maps"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// The tables of ovn-nb(5) that join networks, and those of their columns. They
// are read, always as a whole, where there is no Southbound.
const (
	tableRouter     = "Logical_Router"
	tableRouterPort = "Logical_Router_Port"
)

const (
	routerPorts = iota
)

const (
	lrpName = iota
	lrpPeer
)

const kindRouter = "router"

// routers is what joins switches.
type routers struct {
	routers map[ovsdb.UUID]*router
	ports   map[ovsdb.UUID]*routerPort

	byName   map[string]*routerPort
	routerOf map[ovsdb.UUID]ovsdb.UUID             // by port
	attached map[string]map[ovsdb.UUID]*switchPort // ports of switches by the name of the router's
}

type router struct {
	seen  uint32
	ports []ovsdb.UUID
}

type routerPort struct {
	seen       uint32
	id         ovsdb.UUID
	name, peer string
}

func newRouters() routers {
	return routers{
		routers: make(map[ovsdb.UUID]*router), ports: make(map[ovsdb.UUID]*routerPort),
		byName: make(map[string]*routerPort), routerOf: make(map[ovsdb.UUID]ovsdb.UUID),
		attached: make(map[string]map[ovsdb.UUID]*switchPort),
	}
}

func (n *northbound) routerRow(id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	r := &n.routers
	old := r.routers[id]
	if old == nil {
		old = &router{}
	}
	next := &router{seen: n.generation}
	if op == ovsdb.Delete {
		delete(r.routers, id)
	} else {
		if op == ovsdb.Modify {
			next.ports = old.ports
		}
		next.ports = row.PatchUUIDs(routerPorts, next.ports)
		r.routers[id] = next
		if slices.Equal(next.ports, old.ports) {
			return
		}
	}
	for _, p := range old.ports {
		if r.routerOf[p] == id {
			delete(r.routerOf, p)
		}
	}
	for _, p := range next.ports {
		r.routerOf[p] = id
	}
	n.touch(id)
}

func (n *northbound) routerPortRow(id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) {
	r := &n.routers
	old := r.ports[id]
	if op != ovsdb.Delete {
		next := &routerPort{id: id}
		if old != nil && op == ovsdb.Modify {
			*next = *old
		}
		next.seen = n.generation
		if op == ovsdb.Insert || row.Has(lrpName) {
			next.name = row.String(lrpName)
		}
		if op == ovsdb.Insert || row.Has(lrpPeer) {
			next.peer = row.String(lrpPeer)
		}
		if old != nil && next.name == old.name && next.peer == old.peer {
			old.seen = next.seen
			return
		}
		r.ports[id], r.byName[next.name] = next, next
	} else {
		delete(r.ports, id)
	}
	// A row of that name may have come before this one went.
	if old != nil && r.byName[old.name] == old {
		delete(r.byName, old.name)
	}
	n.touch(r.routerOf[id])
}

func (n *northbound) sweepRouters() {
	for id, r := range n.routers.ports {
		if r.seen != n.generation {
			n.routerPortRow(id, ovsdb.Delete, nil)
		}
	}
	for id, r := range n.routers.routers {
		if r.seen != n.generation {
			n.routerRow(id, ovsdb.Delete, nil)
		}
	}
}

// touch is for a row that joins.
func (n *northbound) touch(node ovsdb.UUID) {
	if n.world.groups.wanted > 0 && n.world.sb == nil {
		n.world.groups.touch(node)
		n.world.want = true
	}
}

// touchRouterPort is for a port of a switch.
func (n *northbound) touchRouterPort(p *switchPort) {
	if p.kind == kindRouter || p.kind == kindLocalnet {
		n.touch(n.switchOf[p.id])
	}
}

// isLocalnet tells whether a node is a switch with a way out of OVN.
func (n *northbound) isLocalnet(node ovsdb.UUID) bool {
	s := n.switches[node]
	return s != nil && slices.ContainsFunc(s.ports, func(id ovsdb.UUID) bool {
		p := n.ports[id]
		return p != nil && p.kind == kindLocalnet
	})
}

// ends calls yield for each end of what joins a node to others: the node there,
// or the port of a switch that is not known.
func (n *northbound) ends(node ovsdb.UUID, yield func(next, port ovsdb.UUID, known bool)) {
	if n.isLocalnet(node) {
		return
	}
	r := &n.routers
	if s := n.switches[node]; s != nil {
		for _, id := range s.ports {
			p := n.ports[id]
			if p == nil || p.kind != kindRouter {
				continue
			}
			if port := r.byName[p.routerPort]; port != nil {
				if next, ok := r.routerOf[port.id]; ok {
					yield(next, port.id, true)
				}
			}
		}
	}
	if router := r.routers[node]; router != nil {
		for _, id := range router.ports {
			port := r.ports[id]
			if port == nil {
				continue
			}
			for id := range r.attached[port.name] {
				next, ok := n.switchOf[id]
				yield(next, id, ok)
			}
			if q := r.byName[port.peer]; q != nil && q.peer == port.name {
				if next, ok := r.routerOf[q.id]; ok {
					yield(next, q.id, true)
				}
			}
		}
	}
}

// reach follows what joins switches as far as rows are known. It gives all
// switches that it comes to, and the ports whose switches are to be asked for,
// known or not, as they are where it does not go.
func (n *northbound) reach(from []ovsdb.UUID) (switches, peers []ovsdb.UUID) {
	seen := make(map[ovsdb.UUID]struct{}, len(from))
	queue := slices.Clone(from)
	for _, node := range from {
		seen[node] = struct{}{}
	}
	for i := 0; i < len(queue); i++ {
		if n.switches[queue[i]] != nil {
			switches = append(switches, queue[i])
		}
		n.ends(queue[i], func(next, port ovsdb.UUID, known bool) {
			if _, ok := seen[next]; ok && known {
				return
			}
			if !known || n.isLocalnet(next) {
				peers = append(peers, port)
				return
			}
			seen[next] = struct{}{}
			queue = append(queue, next)
		})
	}
	return sorted(switches), sorted(peers)
}

// Of the graph.

func (n *northbound) each(yield func(ovsdb.UUID) bool) {
	for id := range n.switches {
		if !yield(id) {
			return
		}
	}
	maps.Keys(n.routers.routers)(yield)
}

func (n *northbound) covered(node ovsdb.UUID) bool {
	if n.world.local && !n.cover.joined {
		return false
	}
	return n.routers.routers[node] != nil || n.switches[node] != nil && n.world.isWhole(origin.Network(node))
}

func (n *northbound) neighbours(to []ovsdb.UUID, node ovsdb.UUID) ([]ovsdb.UUID, bool) {
	all := true
	n.ends(node, func(next, port ovsdb.UUID, known bool) {
		switch {
		case !known:
			all = all && (!n.world.local || n.cover.hasPeer(port.String()))
		case n.isLocalnet(next):
		case n.covered(next):
			to = append(to, next)
		default:
			all = false
		}
	})
	return to, all
}

func (n *northbound) logical(node ovsdb.UUID) origin.Network {
	if n.switches[node] == nil {
		return origin.Network{}
	}
	return origin.Network(node)
}

func (n *northbound) nodes(id origin.Network) []ovsdb.UUID { return []ovsdb.UUID{ovsdb.UUID(id)} }
