// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// guestInputs is all that decides which ports are guests here. It is read, never changed.
type guestInputs struct {
	now time.Time
	// rows are those of Southbound, with its indexes and self, the Chassis row of this node.
	rows *southbound
	// restored is set while the rows are those of a saved file, and confirmed has what the switch confirms of it.
	restored  bool
	confirmed map[any]map[Binding]struct{}
	// interfaces are by the owner of Source.SetPorts. plugged are the ports of all of them, sorted.
	interfaces map[any]localPorts
	plugged    []string
	// released are the ports that were unbound since the last step, though they are requested here.
	released map[string]struct{}
	// covers reports whether the rows of a network are all there, and asked whether the row of a port is
	// there if the database has it.
	covers func(origin.Network) bool
	asked  func(port string) bool
}

// isHere reports whether the local chassis has the port. A guest is served at both ends
// of a migration, as each switch punts only the queries from its own port.
func (in *guestInputs) isHere(p *binding) bool { return in.rows.isHere(p) }

// isPlugged reports whether a logical port has an interface here.
func (in *guestInputs) isPlugged(port string) bool {
	_, ok := slices.BinarySearch(in.plugged, port)
	return ok
}

// graceOf returns the longest grace that Source.SetPorts has given the guest of an interface.
func (in *guestInputs) graceOf(iface string) (d time.Duration) {
	for _, local := range in.interfaces {
		if slices.Contains(local.names, iface) {
			d = max(d, local.grace)
		}
	}
	return d
}

// isConfirmed reports whether a port may be served as a guest: Southbound is in sync, or the switch
// has the port as it is in the file.
func (in *guestInputs) isConfirmed(id ovsdb.UUID, p *binding, datapath uint32) bool {
	if !in.restored {
		return true
	}
	b := Binding{binary.BigEndian.Uint32(id[:4]), datapath, p.key, p.tag, p.iface()}
	for _, all := range in.confirmed {
		if _, ok := all[b]; ok {
			return true
		}
	}
	return false
}

// allConfirmed reports whether each guest of this chassis may be served. A VIF without an interface here
// is no guest. External and virtual ports have no interface, and no flow confirms them: until Southbound is in
// sync, a process before this one may serve them.
func (in *guestInputs) allConfirmed() bool {
	for id, p := range in.rows.ports.All() {
		kind := p.effectiveKind()
		if !isGuest(kind) || !in.isHere(p) || kind == "" && !in.isPlugged(p.iface()) {
			continue
		}
		if d := in.rows.datapaths.Get(p.datapath); d != nil && !in.isConfirmed(id, p, d.key) {
			return false
		}
	}
	return true
}

// candidates returns the guests of a snapshot whose binding may have vanished: all of them
// once the local chassis is another row, or none.
func (in *guestInputs) candidates(prev *Snapshot) (all []*Port) {
	if ovsdb.UUID(prev.Chassis()) != (ovsdb.UUID{}) && ovsdb.UUID(prev.Chassis()) != in.rows.self {
		for n := range prev.Networks() {
			all = append(all, n.Ports().Guests()...)
		}
		return all
	}
	for name := range in.released {
		if p := prev.PortByName(name); p != nil && p.Local {
			all = append(all, p)
		}
	}
	return all
}

// keyOwners has who owns the tunnel keys of retained guests by now.
type keyOwners struct {
	// keys has the name of a port by its pipelineKey, networks a network by its key.
	keys     map[uint64]string
	networks map[uint32]origin.Network
}

// ownersOf finds who owns the tunnel keys of retained guests.
func (in *guestInputs) ownersOf(all guestSet) keyOwners {
	o := keyOwners{make(map[uint64]string), make(map[uint32]origin.Network)}
	keys, datapaths := make(map[uint64]struct{}), make(map[uint32]struct{})
	for _, k := range all {
		keys[pipelineKey(k.port.DatapathKey, k.port.Key)] = struct{}{}
		datapaths[k.port.DatapathKey] = struct{}{}
	}
	for id, d := range in.rows.datapaths.All() {
		if _, ok := datapaths[d.key]; !ok {
			continue
		}
		o.networks[d.key] = d.network
		for _, p := range in.rows.portsOf[id] {
			key := pipelineKey(d.key, p.key)
			if _, ok := keys[key]; ok {
				o.keys[key] = p.name
			}
		}
	}
	return o
}

// factsOf returns the facts on a guest, without timedOut.
func (in *guestInputs) factsOf(k retainedGuest, owners keyOwners) facts {
	p := k.port
	owner, used := owners.keys[pipelineKey(p.DatapathKey, p.Key)]
	network, known := owners.networks[p.DatapathKey]
	return facts{
		at: in.locate(k), plugged: in.isPlugged(p.iface()),
		keysReused: used && owner != p.Name || known && network != p.Network,
	}
}

// locate returns where a guest is.
func (in *guestInputs) locate(k retainedGuest) location {
	p, row := k.port, in.rows.portNamed[k.port.Name]
	if row == nil {
		switch {
		case len(in.rows.networks[p.Network]) > 0:
			if in.covers(p.Network) {
				return absent
			}
		case in.rows.flows.Len() > 0 && in.asked(p.Name):
			// northd writes networks, ports and flows in one transaction.
			return absent
		}
		return unknown
	}
	d := in.rows.datapaths.Get(row.datapath)
	switch {
	case d != nil && d.network != p.Network:
		return elsewhere
	case in.isHere(row):
		if d != nil && in.covers(p.Network) {
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

// Binding is what a flow of the switch says of the port whose packets it takes in: the first 32
// bits of the UUID of the Port_Binding, the tunnel keys, and the VLAN ID of the packets, 0 for none:
// that of a container, whose answers are tagged with it. Interface is external_ids:iface-id of the
// Interface that the packets come from.
type Binding struct {
	Cookie, Datapath, Port uint32
	VLAN                   uint16
	Interface              string
}

// localPorts are the logical ports that have an interface on one bridge, and the grace of
// their guests.
type localPorts struct {
	names []string
	grace time.Duration
}
