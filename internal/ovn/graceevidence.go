// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// candidates returns the guests of the present snapshot whose binding may have vanished: all of them
// once the local chassis is another row, or none.
func (s *southbound) candidates(prev *Snapshot) []*Port {
	var all []*Port
	if prev.chassis != (ovsdb.UUID{}) && prev.chassis != s.self {
		for _, n := range prev.networks.All() {
			all = append(all, n.ports.guests...)
		}
		return all
	}
	for name := range s.world.grace.released {
		if p := prev.PortByName(name); p != nil && p.Local {
			all = append(all, p)
		}
	}
	return all
}

// keyOwners has who owns the tunnel keys of kept guests by now.
type keyOwners struct {
	// keys has the name of a port by its pipelineKey, networks a network by its key.
	keys     map[uint64]string
	networks map[uint32]origin.Network
}

// ownersOf finds who owns the tunnel keys of kept guests.
func (s *southbound) ownersOf(kept map[string]*keptGuest) keyOwners {
	o := keyOwners{make(map[uint64]string), make(map[uint32]origin.Network)}
	keys, datapaths := make(map[uint64]struct{}), make(map[uint32]struct{})
	for _, k := range kept {
		keys[pipelineKey(k.port.DatapathKey, k.port.Key)] = struct{}{}
		datapaths[k.port.DatapathKey] = struct{}{}
	}
	for id, d := range s.datapaths.All() {
		if _, ok := datapaths[d.key]; !ok {
			continue
		}
		o.networks[d.key] = d.network
		for _, p := range s.portsOf[id] {
			if key := pipelineKey(d.key, p.key); has(keys, key) {
				o.keys[key] = p.name
			}
		}
	}
	return o
}

func has[K comparable](set map[K]struct{}, k K) bool {
	_, ok := set[k]
	return ok
}

// evidenceOf returns the evidence on a guest, without timedOut.
func (s *southbound) evidenceOf(k *keptGuest, owners keyOwners) evidence {
	p := k.port
	owner, used := owners.keys[pipelineKey(p.DatapathKey, p.Key)]
	network, known := owners.networks[p.DatapathKey]
	return evidence{
		where: s.whereIs(k, s.portNamed[p.Name]), plugged: s.world.isPlugged(p.iface()),
		keysReused: used && owner != p.Name || known && network != p.Network,
	}
}

// whereIs returns where a guest is by its row, nil for none.
func (s *southbound) whereIs(k *keptGuest, row *binding) whereabouts {
	p := k.port
	if row == nil {
		switch {
		case len(s.networks[p.Network]) > 0:
			if s.world.isComplete(p.Network) {
				return absent
			}
		case s.flows.Len() > 0 && (!s.world.local || s.acknowledged.coverage.hasPort(p.Name)):
			// northd writes networks, ports and flows in one transaction.
			return absent
		}
		return unknown
	}
	d := s.datapaths.Get(row.datapath)
	switch {
	case d != nil && d.network != p.Network:
		return elsewhere
	case s.isHere(row):
		if d != nil && s.world.isComplete(p.Network) {
			return here
		}
		return unknown
	case row.isOn(k.chassis):
		return former
	case row.chassis != (ovsdb.UUID{}) || len(row.additional) > 0:
		return elsewhere
	}
	return unbound
}
