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

// Snapshot is the networks, their ports and names at one time. It is immutable, so its methods take no
// lock and may be called from any goroutine.
//
// A Source puts a network into a snapshot once each configured database has sent all rows of the network.
// So a port in a snapshot has all its names.
type Snapshot struct {
	// Time is when the snapshot replaced the previous one, zero for the empty first one.
	Time time.Time
	// Settled is set when the snapshot has every guest of the local chassis: Southbound
	// has, or had, its row, and the databases have acknowledged the conditions for it.
	// Settled is unset while the rows of a new guest's network are read, and after a
	// Source.Request for more rows until these are read.
	Settled bool
	// PortsVersion grows with each change of a network's ports or DNSMeter, and of the guests that
	// Guests leaves out. Snapshots of one Source with the same version have the same Guests, Owns and
	// DNSMeter.
	PortsVersion uint64
	// ForwardsVersion grows with each change of Network.Forwards.
	ForwardsVersion uint64
	// Stats sums up the snapshot.
	Stats Stats

	networks names.ShardedMap[origin.Network, *Network]
	byKey    names.ShardedMap[uint32, *Network]
	byName   names.ShardedMap[string, nameHolders]
	ports    names.ShardedMap[string, *Port]
	// leader has, for each network with a router scope, the first network of the scope. joined has
	// all networks of a scope by the first one.
	leader names.ShardedMap[origin.Network, origin.Network]
	joined names.ShardedMap[origin.Network, *names.Union]
	// scoped is set once the networks of all guests have router scopes, see Requests.Routers. It stays
	// until that request is released: a guest that comes later needs a router scope.
	scoped bool
	// retained has the logical ports of retained guests, each with the port whose interface the guest
	// has. chassis is the UUID of the local Chassis row, zero for none.
	retained map[string]string
	chassis  [16]byte
	stage    Stage
	// dnsRecords counts the names of DNS rows in Stats.Names.
	dnsRecords int
}

// Stats sums up a snapshot.
type Stats struct {
	// Networks, Ports, Rows (of table DNS) and Names are counts. A name of a DNS row counts once,
	// however many networks have the row.
	Networks, Ports, Rows, Names int
	// BadValues counts the unusable values since the Source started; Source.BadValues has the present
	// ones. LastBad is the text about the last one, empty for none.
	BadValues uint64
	LastBad   string
	// Rebuild is how long it took to make the snapshot.
	Rebuild time.Duration
}

// Guest returns the port that a punt came from, nil for none. datapathKey is the packet's
// metadata (ovn-sb(5), Datapath_Binding tunnel_key), portKey its register 14
// (Port_Binding tunnel_key).
func (s *Snapshot) Guest(datapathKey, portKey uint32) *Port {
	n, ok := s.byKey.Get(datapathKey)
	if !ok {
		return nil
	}
	return n.ports.byKey[PipelineKey(datapathKey, portKey)]
}

// PortByName returns the guest port with a Logical_Switch_Port.name, which an Interface has in
// external_ids:iface-id. It returns nil for none.
func (s *Snapshot) PortByName(name string) *Port {
	p, _ := s.ports.Get(name)
	return p
}

// HasRetained reports whether any guest is retained without a binding, for the grace of
// Reader.SetLocal.
func (s *Snapshot) HasRetained() bool { return len(s.retained) > 0 }

// IsRetained reports whether the guest with a logical port is retained.
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

// CountRetained returns how many retained guests have one of the interfaces, which are given by their
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

// Guests yields the guests of the local chassis, retained ones included, in no order. Once HasRouterScopes
// holds, it leaves out guests without a RouterScope.
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

// HasRouterScopes reports whether all guests have had a RouterScope since Requests.Routers was asked for.
func (s *Snapshot) HasRouterScopes() bool { return s.scoped }

// hasGuestScopes reports whether each network with guests has a RouterScope.
func (s *Snapshot) hasGuestScopes() bool {
	for id, n := range s.networks.All() {
		if _, ok := s.leader.Get(id); !ok && len(n.ports.guests) > 0 {
			return false
		}
	}
	return true
}

// Network returns the network with an id, nil for none.
func (s *Snapshot) Network(id origin.Network) *Network {
	n, _ := s.networks.Get(id)
	return n
}

// Resolve returns the network that r refers to, and how many networks there are. The network is nil if it
// is not in the snapshot, or if several have the name: any tenant may take a name.
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

// NetworkByName is Resolve of a Logical_Switch.name.
func (s *Snapshot) NetworkByName(name string) *Network {
	n, _ := s.Resolve(SwitchRef{Name: name})
	return n
}

// DNSStage returns the table of ls_in_dns_lookup in the ingress pipeline (ovn-sb(5),
// Logical_Flow table_id, to which ovn-controller adds 8), and the sorted cookies of its
// flows: the first 32 bits of the UUIDs of the Logical_Flow rows. ok reports
// whether Southbound has such flows.
func (s *Snapshot) DNSStage() (tableID int, cookies []uint32, ok bool) {
	return s.stage.Table, s.stage.Cookies, len(s.stage.Cookies) > 0
}

// HasMachine reports whether a port of the network has the address and is neither a router's
// nor a localport, or a port of a network that routers join to it, where RouterScope knows
// that: then a DNS server at the address is the tenant's own. It is false unless
// Requests.DNSServers asks for it.
func (s *Snapshot) HasMachine(n *Network, a netip.Addr) bool {
	scope := s.RouterScope(n.ID)
	return n.Directory.HasMachine(a) || scope.Own != nil && scope.HasMachine(a)
}

// Stage is the table of OVN's own DNS in the pipeline.
type Stage struct {
	Table   int      // Logical_Flow.table_id
	Cookies []uint32 // sorted; none if the stage is not known
}
