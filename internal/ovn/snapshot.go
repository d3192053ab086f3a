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

// Snapshot is the networks, their ports and names at one time. It is immutable, so its methods take no lock. It
// has a network once each configured database has sent all of its rows, so a port in a snapshot has all its
// names.
type Snapshot struct {
	// Time is when the snapshot replaced the previous one, zero for the empty first one.
	Time time.Time
	// Settled is set if the snapshot has every guest of the local chassis: Southbound has or had the Chassis
	// row, and the databases have acknowledged the conditions. It is unset while rows of a new guest or a
	// Source.Request are being read.
	Settled bool
	// PortsVersion changes with the ports or DNSMeter of any network, and with the guests that Guests omits.
	// Snapshots of one Source with the same version have the same Guests, Owns and DNSMeter.
	PortsVersion uint64
	// ForwardsVersion changes with Network.Forwards.
	ForwardsVersion uint64
	Stats           Stats

	networks names.ShardedMap[origin.Network, *Network]
	byKey    names.ShardedMap[uint32, *Network]
	byName   names.ShardedMap[string, nameHolders]
	ports    names.ShardedMap[string, *Port]
	// scopeOf has the first network of each network's router scope. unions has all networks of a scope, by the
	// first.
	scopeOf names.ShardedMap[origin.Network, origin.Network]
	unions  names.ShardedMap[origin.Network, *names.Union]
	// scoped is set once the networks of all guests have router scopes, until Requests.Routers is released. A
	// later guest then needs a router scope.
	scoped bool
	// retained has the interface of each retained guest, by logical port. chassis is the UUID of the local
	// Chassis row, zero for none.
	retained   map[string]string
	chassis    [16]byte
	stage      Stage
	dnsRecords int
}

type Stats struct {
	// Rows counts rows of table DNS. A name counts once for each DNS row, regardless of the networks of the
	// row.
	Networks, Ports, Rows, Names int
	// BadValues counts the unusable values since the Source started; Source.BadValues has the present ones.
	// LastBad is the text about the last one, "" for none.
	BadValues uint64
	LastBad   string
	Rebuild   time.Duration
}

// Guest returns the port that a punt came from, nil for none. datapathKey is the packet's metadata (ovn-sb(5),
// Datapath_Binding tunnel_key), portKey its register 14 (Port_Binding tunnel_key).
func (s *Snapshot) Guest(datapathKey, portKey uint32) *Port {
	n, ok := s.byKey.Get(datapathKey)
	if !ok {
		return nil
	}
	return n.ports.byKey[PipelineKey(datapathKey, portKey)]
}

// PortByName returns the guest port with a Logical_Switch_Port.name, external_ids:iface-id of its Interface,
// nil for none.
func (s *Snapshot) PortByName(name string) *Port {
	p, _ := s.ports.Get(name)
	return p
}

func (s *Snapshot) HasRetained() bool { return len(s.retained) > 0 }

func (s *Snapshot) IsRetained(port string) bool {
	_, ok := s.retained[port]
	return ok
}

func (s *Snapshot) Networks() iter.Seq[*Network] {
	return func(yield func(*Network) bool) {
		for _, n := range s.networks.All() {
			if !yield(n) {
				return
			}
		}
	}
}

// CountRetained returns how many retained guests have one of the interfaces, by external_ids:iface-id.
func (s *Snapshot) CountRetained(ifaces []string) int {
	n := 0
	for _, iface := range s.retained {
		if slices.Contains(ifaces, iface) {
			n++
		}
	}
	return n
}

// Chassis returns the UUID of the local Chassis row, zero for none.
func (s *Snapshot) Chassis() [16]byte { return s.chassis }

func (s *Snapshot) HasChassis() bool { return s.chassis != [16]byte{} }

// Guests yields the guests of the local chassis, including retained guests, in no order. Once HasRouterScopes
// is true, it omits guests without a RouterScope.
func (s *Snapshot) Guests() iter.Seq[*Port] {
	return func(yield func(*Port) bool) {
		for id, n := range s.networks.All() {
			if _, ok := s.scopeOf.Get(id); s.scoped && !ok {
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

// HasRouterScopes reports whether all guests have had a RouterScope since the first Requests.Routers.
func (s *Snapshot) HasRouterScopes() bool { return s.scoped }

func (s *Snapshot) hasGuestScopes() bool {
	for id, n := range s.networks.All() {
		if _, ok := s.scopeOf.Get(id); !ok && len(n.ports.guests) > 0 {
			return false
		}
	}
	return true
}

func (s *Snapshot) Network(id origin.Network) *Network {
	n, _ := s.networks.Get(id)
	return n
}

// Resolve returns the network of a reference, and how many networks match. The network is nil if it is not in
// the snapshot, or if several match: any tenant may take a name.
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

// NetworkByName is Resolve for a Logical_Switch.name.
func (s *Snapshot) NetworkByName(name string) *Network {
	n, _ := s.Resolve(SwitchRef{Name: name})
	return n
}

// DNSStage returns the table of ls_in_dns_lookup in the ingress pipeline (ovn-sb(5), Logical_Flow table_id, to
// which ovn-controller adds 8). cookies are the first 32 bits of the UUIDs of its Logical_Flow rows, sorted. ok
// reports whether Southbound has such flows.
func (s *Snapshot) DNSStage() (tableID int, cookies []uint32, ok bool) {
	return s.stage.Table, s.stage.Cookies, len(s.stage.Cookies) > 0
}

// HasMachine reports whether a port other than a router's or a localport has the address, on the network or in
// its RouterScope. A DNS server at the address belongs to the tenant. It needs Requests.DNSServers.
func (s *Snapshot) HasMachine(n *Network, a netip.Addr) bool {
	scope := s.RouterScope(n.ID)
	return n.Directory.HasMachine(a) || scope.Own != nil && scope.HasMachine(a)
}

// Stage is the table of OVN's own DNS in the pipeline.
type Stage struct {
	Table   int      // Logical_Flow.table_id
	Cookies []uint32 // sorted; none if the stage is not known
}
