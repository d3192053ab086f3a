// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"maps"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

const kindLocalnet = "localnet"

// joins tells whether ports of that type come in pairs, one at each end of what
// joins two datapaths (ovn-sb(5), Port_Binding options:peer). The router's port
// on the chassis of a gateway (chassisredirect) is none.
func joins(kind string) bool { return kind == "patch" || kind == "l3gateway" }

// peers is what joins datapaths.
type peers struct {
	byName    map[string]*binding
	of        map[ovsdb.UUID]map[ovsdb.UUID]*binding // by datapath
	localnets map[ovsdb.UUID]map[ovsdb.UUID]*binding // by datapath
}

func newPeers() peers {
	return peers{
		byName:    make(map[string]*binding),
		of:        make(map[ovsdb.UUID]map[ovsdb.UUID]*binding),
		localnets: make(map[ovsdb.UUID]map[ovsdb.UUID]*binding),
	}
}

func (s *southbound) linkPeer(id ovsdb.UUID, p *binding) {
	switch {
	case p.kind == kindLocalnet:
		link(s.peers.localnets, p.datapath, id, p)
	case joins(p.kind) && p.peer != "":
		link(s.peers.of, p.datapath, id, p)
		s.peers.byName[p.name] = p
	default:
		return
	}
	s.touchPeer(p)
}

func (s *southbound) unlinkPeer(id ovsdb.UUID, p *binding) {
	switch {
	case p.kind == kindLocalnet:
		unlink(s.peers.localnets, p.datapath, id)
	case joins(p.kind) && p.peer != "":
		unlink(s.peers.of, p.datapath, id)
		// A row of that name may have come before this one went.
		if s.peers.byName[p.name] == p {
			delete(s.peers.byName, p.name)
		}
	default:
		return
	}
	s.touchPeer(p)
}

func (s *southbound) touchPeer(p *binding) {
	if s.world.groups.wanted > 0 {
		s.world.groups.touch(p.datapath)
		s.world.want = true
	}
}

// other is the port at the other end, if both say so: northd removes the two
// one after the other where it does so at all.
func (s *southbound) other(p *binding) (q *binding, mutual bool) {
	q = s.peers.byName[p.peer]
	return q, q != nil && q.peer == p.name
}

// isLocalnet tells whether a datapath is a network with a way out of OVN.
func (s *southbound) isLocalnet(node ovsdb.UUID) bool {
	if len(s.peers.localnets[node]) > 0 {
		return true
	}
	for sibling := range s.networks[s.logical(node)] {
		if len(s.peers.localnets[sibling]) > 0 {
			return true
		}
	}
	return false
}

// reach follows what joins datapaths as far as rows are known. It gives all
// datapaths that it comes to and the names of ports that lead on: those not
// known yet, and those that would be forgotten, and asked for anew, since they
// are on a datapath where it does not go.
func (s *southbound) reach(from []ovsdb.UUID) (all []ovsdb.UUID, peers []string) {
	seen := make(map[ovsdb.UUID]struct{}, len(from))
	all = slices.Clone(from)
	for _, node := range from {
		seen[node] = struct{}{}
	}
	var ends []*binding
	for i := 0; i < len(all); i++ {
		if s.isLocalnet(all[i]) {
			continue
		}
		for _, p := range s.peers.of[all[i]] {
			ends = append(ends, p)
			q, mutual := s.other(p)
			if !mutual || s.isLocalnet(q.datapath) {
				continue
			}
			if _, ok := seen[q.datapath]; !ok {
				seen[q.datapath] = struct{}{}
				all = append(all, q.datapath)
			}
		}
	}
	for _, p := range ends {
		if q := s.peers.byName[p.peer]; q != nil {
			if _, ok := seen[q.datapath]; ok {
				continue
			}
		}
		peers = append(peers, p.peer)
	}
	slices.Sort(peers)
	return sorted(all), slices.Compact(peers)
}

// Of the graph.

func (s *southbound) each(yield func(ovsdb.UUID) bool) { maps.Keys(s.datapaths)(yield) }

func (s *southbound) covered(node ovsdb.UUID) bool {
	return s.datapaths[node] != nil && (!s.world.local || s.cover.joined && s.cover.has(tableDatapath, node))
}

func (s *southbound) neighbours(to []ovsdb.UUID, node ovsdb.UUID) ([]ovsdb.UUID, bool) {
	if s.isLocalnet(node) {
		return to, true
	}
	all := true
	add := func(next ovsdb.UUID) {
		if s.covered(next) {
			to = append(to, next)
		} else {
			all = false
		}
	}
	for _, p := range s.peers.of[node] {
		q, mutual := s.other(p)
		switch {
		case q == nil:
			// None, if that is what the database says.
			all = all && (!s.world.local || s.cover.hasPeer(p.peer))
		case mutual && !s.isLocalnet(q.datapath):
			add(q.datapath)
		}
	}
	for sibling := range s.networks[s.logical(node)] {
		add(sibling)
	}
	return to, all
}

func (s *southbound) logical(node ovsdb.UUID) origin.Network {
	if d := s.datapaths[node]; d != nil {
		return d.logical
	}
	return origin.Network{}
}

func (s *southbound) nodes(id origin.Network) []ovsdb.UUID {
	return slices.Collect(maps.Keys(s.networks[id]))
}
