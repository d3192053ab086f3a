// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Snapshot is the immutable state of the networks, their ports and names at one time. Its
// methods take no lock and may be called from any number of goroutines.
//
// A network is in a snapshot only if it is complete: every configured database has sent
// all of its rows. So a port in a snapshot has all its names there.
type Snapshot struct {
	// Time is when this snapshot replaced the one before, zero for the empty
	// snapshot that a Source starts with.
	Time time.Time
	// Settled is set when the snapshot has every guest of the local chassis: Southbound
	// has, or had, its row, and the databases have acknowledged the conditions for it.
	// It may be unset again until the rows of a new guest's network are read. It is
	// unset, too, from a call of Source.Request that asks for more until that is read.
	Settled bool
	// PortsVersion is that of the networks, their ports and their DNSMeter: of two
	// snapshots of one Source that have the same, Guests, Owns and DNSMeter say the same.
	PortsVersion uint64
	// ForwardsVersion is another one whenever Forwards of a network are.
	ForwardsVersion uint64
	// Stats sums up what is in the snapshot.
	Stats Stats

	networks names.ShardedMap[origin.Network, *Network]
	byKey    names.ShardedMap[uint32, *Network]
	byName   names.ShardedMap[string, nameHolders]
	ports    names.ShardedMap[string, *Port]
	// leader has, for a network whose router scope is known, the first of those that
	// are joined to it, and joined has by that one all of them.
	leader names.ShardedMap[origin.Network, origin.Network]
	joined names.ShardedMap[origin.Network, *names.Union]
	// scoped is set if those of all guests are, see Requests.Routers. It stays until
	// that is taken back: a guest that comes later has to have a router scope.
	scoped bool
	// retained has, by logical port, for each guest that is retained without a binding, the port
	// whose interface it has. chassis is the row of the local chassis, zero for none.
	retained map[string]string
	chassis  [16]byte
	stage    stage
	// dnsRecords are the names of DNS rows that are counted in Stats.Names.
	dnsRecords int
}

// Stats sums up a snapshot.
type Stats struct {
	// Networks, Ports, Rows (of table DNS) and Names count what is in the snapshot. A name
	// of a DNS row counts once, however many networks have the row.
	Networks, Ports, Rows, Names int
	// BadValues counts the values that could not be used since the Source started, see
	// Source.BadValues for those of the present. LastBad says which was the last one, empty for none.
	BadValues uint64
	LastBad   string
	// Rebuild is how long it took to make this snapshot from the one before.
	Rebuild time.Duration
}

// Guest returns the port that a punt came from: datapathKey is the packet's
// metadata (ovn-sb(5), Datapath_Binding tunnel_key), portKey its register 14
// (Port_Binding tunnel_key). It is nil if these are the keys of no guest.
func (s *Snapshot) Guest(datapathKey, portKey uint32) *Port {
	n, ok := s.byKey.Get(datapathKey)
	if !ok {
		return nil
	}
	return n.ports.byKey[pipelineKey(datapathKey, portKey)]
}

// PortByName returns the guest port of that name (Logical_Switch_Port.name,
// which is what external_ids:iface-id holds on an Interface), or nil.
func (s *Snapshot) PortByName(name string) *Port {
	p, _ := s.ports.Get(name)
	return p
}

// HasRetained reports whether any guest has lost its binding and is retained for the grace of
// Source.SetPorts.
func (s *Snapshot) HasRetained() bool { return len(s.retained) > 0 }

// IsRetained reports whether a guest is retained, by its logical port.
func (s *Snapshot) IsRetained(port string) bool {
	_, ok := s.retained[port]
	return ok
}

// Networks yields the networks, in no order.
func (s *Snapshot) Networks() iter.Seq[*Network] {
	return func(yield func(*Network) bool) {
		for _, n := range s.networks.All() {
			if !yield(n) {
				return
			}
		}
	}
}

// CountRetained returns how many retained guests have one of the interfaces, by
// external_ids:iface-id.
func (s *Snapshot) CountRetained(ifaces []string) int {
	n := 0
	for _, iface := range s.retained {
		if slices.Contains(ifaces, iface) {
			n++
		}
	}
	return n
}

// Chassis returns the UUID of the Chassis row of the local chassis, zero for none.
func (s *Snapshot) Chassis() [16]byte { return s.chassis }

// HasChassis reports whether Southbound has a row of the local chassis.
func (s *Snapshot) HasChassis() bool { return s.chassis != [16]byte{} }

// Guests yields the guests that are bound to the local chassis, and those that are retained, in
// no order. While Requests.Routers is asked for it leaves out those whose RouterScope is not complete,
// from when the RouterScopes of all of them have been.
func (s *Snapshot) Guests() iter.Seq[*Port] {
	return func(yield func(*Port) bool) {
		for id, n := range s.networks.All() {
			if _, ok := s.leader.Get(id); s.scoped && !ok {
				continue
			}
			for _, p := range n.ports.guests {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// HasRouterScopes reports whether the RouterScope of each guest is known.
func (s *Snapshot) HasRouterScopes() bool { return s.scoped }

// hasGuestScopes reports whether the RouterScope of each network with guests is known.
func (s *Snapshot) hasGuestScopes() bool {
	for id, n := range s.networks.All() {
		if _, ok := s.leader.Get(id); !ok && len(n.ports.guests) > 0 {
			return false
		}
	}
	return true
}

// Network returns the network of that id, or nil.
func (s *Snapshot) Network(id origin.Network) *Network {
	n, _ := s.networks.Get(id)
	return n
}

// Resolve returns the network that r refers to, and how many there are. It is nil if there is
// none or it is not complete, and if several have the name: one of them might be anybody's.
func (s *Snapshot) Resolve(r SwitchRef) (n *Network, count int) {
	if r.Name == "" {
		if n = s.Network(r.ID); n != nil {
			count = 1
		}
		return n, count
	}
	holders, _ := s.byName.Get(r.Name)
	if holders.count == 1 {
		n = s.Network(holders.first)
	}
	return n, holders.count
}

// NetworkByName returns the network of that Logical_Switch.name, or nil, see Resolve.
func (s *Snapshot) NetworkByName(name string) *Network {
	n, _ := s.Resolve(SwitchRef{Name: name})
	return n
}

// DNSStage returns the table of ls_in_dns_lookup in the ingress pipeline (ovn-sb(5),
// Logical_Flow table_id, to which ovn-controller adds 8), and the cookies of the stage's
// flows, sorted: the first 32 bits of the UUIDs of the Logical_Flow rows. It reports
// whether Southbound has such flows.
func (s *Snapshot) DNSStage() (tableID int, cookies []uint32, ok bool) {
	return s.stage.table, s.stage.cookies, len(s.stage.cookies) > 0
}

// HasMachine reports whether a port of the network has the address and is neither a router's
// nor a localport, or a port of a network that routers join to it, where RouterScope knows
// that: then a DNS server at the address is the tenant's own. It is false unless
// Requests.DNSServers asks for it.
func (s *Snapshot) HasMachine(n *Network, a netip.Addr) bool {
	scope := s.RouterScope(n.ID)
	return n.Directory.HasMachine(a) || scope.Own != nil && scope.HasMachine(a)
}

// stage is the table of OVN's own DNS in the pipeline.
type stage struct {
	table   int      // Logical_Flow.table_id
	cookies []uint32 // sorted; none if the stage is not known
}
