// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Inputs decides which ports are guests here. It is immutable.
type Inputs struct {
	Now  time.Time
	Rows *topology.Southbound
	// Confirmed has the bindings in the flows of each bridge.
	Restored  bool
	Confirmed []map[InPort]struct{}
	// Interfaces has the local ports of each bridge, Plugged all of them, sorted.
	Interfaces []LocalPorts
	Plugged    []string
	// Released are ports unbound since the last step, though requested here.
	Released map[string]struct{}
	// Covers reports whether a network is covered, Asked whether an existing port's row has come.
	Covers func(origin.Network) bool
	Asked  func(port string) bool
}

func (in *Inputs) isHere(p *topology.PortBinding) bool { return in.Rows.IsHere(p) }

func (in *Inputs) isPlugged(port string) bool {
	_, ok := slices.BinarySearch(in.Plugged, port)
	return ok
}

func (in *Inputs) GraceOf(iface string) (d time.Duration) {
	for _, local := range in.Interfaces {
		if slices.Contains(local.Names, iface) {
			d = max(d, local.Grace)
		}
	}
	return d
}

func (in *Inputs) isConfirmed(id ovsdb.UUID, p *topology.PortBinding, datapath uint32) bool {
	if !in.Restored {
		return true
	}
	b := InPort{binary.BigEndian.Uint32(id[:4]), datapath, p.Key, p.Tag, p.Interface()}
	for _, all := range in.Confirmed {
		if _, ok := all[b]; ok {
			return true
		}
	}
	return false
}

// AllConfirmed reports whether each guest of this chassis may be served. A VIF without an interface here is
// no guest. No flow confirms external and virtual ports: the previous process may still serve them.
func (in *Inputs) AllConfirmed() bool {
	for id, p := range in.Rows.Ports.All() {
		portType := p.PortType()
		if !ovn.IsGuestType(portType) || !in.isHere(p) || portType == "" && !in.isPlugged(p.Interface()) {
			continue
		}
		if d := in.Rows.Datapaths.Get(p.Datapath); d != nil && !in.isConfirmed(id, p, d.Key) {
			return false
		}
	}
	return true
}

func (in *Inputs) candidates(prev *ovn.Snapshot) (all []*ovn.Port) {
	if ovsdb.UUID(prev.Chassis()) != (ovsdb.UUID{}) && ovsdb.UUID(prev.Chassis()) != in.Rows.Self {
		for n := range prev.Networks() {
			all = append(all, n.Ports().Guests()...)
		}
		return all
	}
	for name := range in.Released {
		if p := prev.PortByName(name); p != nil && p.Local {
			all = append(all, p)
		}
	}
	return all
}

type keyOwners struct {
	keys     map[uint64]string
	networks map[uint32]origin.Network
}

func (in *Inputs) ownersOf(all Guests) keyOwners {
	o := keyOwners{make(map[uint64]string), make(map[uint32]origin.Network)}
	keys, datapaths := make(map[uint64]struct{}), make(map[uint32]struct{})
	for _, k := range all {
		keys[ovn.PipelineKey(k.Port.DatapathKey, k.Port.Key)] = struct{}{}
		datapaths[k.Port.DatapathKey] = struct{}{}
	}
	for id, d := range in.Rows.Datapaths.All() {
		if _, ok := datapaths[d.Key]; !ok {
			continue
		}
		o.networks[d.Key] = d.Network
		for _, p := range in.Rows.PortsOf[id] {
			key := ovn.PipelineKey(d.Key, p.Key)
			if _, ok := keys[key]; ok {
				o.keys[key] = p.Name
			}
		}
	}
	return o
}

func (in *Inputs) factsOf(k Retained, owners keyOwners) facts {
	p := k.Port
	owner, used := owners.keys[ovn.PipelineKey(p.DatapathKey, p.Key)]
	network, known := owners.networks[p.DatapathKey]
	return facts{
		at: in.locate(k), plugged: in.isPlugged(p.Interface()),
		keysReused: used && owner != p.Name || known && network != p.Network,
	}
}

func (in *Inputs) locate(k Retained) location {
	p, row := k.Port, in.Rows.PortNamed[k.Port.Name]
	if row == nil {
		switch {
		case len(in.Rows.Networks[p.Network]) > 0:
			if in.Covers(p.Network) {
				return absent
			}
		case in.Rows.Flows.Len() > 0 && in.Asked(p.Name):
			// northd writes networks, ports and flows in one transaction.
			return absent
		}
		return unknown
	}
	d := in.Rows.Datapaths.Get(row.Datapath)
	switch {
	case d != nil && d.Network != p.Network:
		return elsewhere
	case in.isHere(row):
		if d != nil && in.Covers(p.Network) {
			return here
		}
		return unknown
	case row.IsOn(k.Chassis):
		return former
	case row.Chassis != (ovsdb.UUID{}) || len(row.Additional()) > 0:
		return elsewhere
	}
	return unbound
}

// InPort is a flow that takes in a port's packets. Cookie is the first 32 bits of the UUID of the
// Port_Binding. Datapath and Port are tunnel keys. VLAN is a container's VLAN ID. Interface is
// external_ids:iface-id.
type InPort struct {
	Cookie, Datapath, Port uint32
	VLAN                   uint16
	Interface              string
}

// LocalPorts are one bridge's logical ports with an interface, and their grace.
type LocalPorts struct {
	Names []string
	Grace time.Duration
}
