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

// Snapshot is the networks, ports and names at one time. It is immutable. It has networks once each database
// has sent all rows, so each port has all its names.
type Snapshot struct {
	// Time is when the snapshot replaced the previous one, zero for the empty first one.
	Time time.Time
	// Settled is set if the snapshot has every local guest: Southbound has or had the Chassis row, and the
	// databases have acknowledged the conditions.
	Settled bool
	// Snapshots of one Source with the same PortsVersion have the same Guests, Owns and DNSMeter.
	PortsVersion    uint64
	ForwardsVersion uint64
	Stats           Stats

	networks names.ShardedMap[origin.Network, *Network]
	byKey    names.ShardedMap[uint32, *Network]
	byName   names.ShardedMap[string, nameHolders]
	ports    names.ShardedMap[string, *Port]
	// scopeOf has the first network of each network's router scope, unions the scope by the first network.
	scopeOf names.ShardedMap[origin.Network, origin.Network]
	unions  names.ShardedMap[origin.Network, *names.Union]
	// scoped is set once the networks of all guests have router scopes, until Requests.Routers is released.
	scoped bool
	// retained has the interface of each retained guest, by logical port.
	retained   map[string]string
	chassis    [16]byte
	stage      Stage
	dnsRecords int
}

type Stats struct {
	// Names counts a name once for each DNS row.
	Networks, Ports, Rows, Names int
	// BadValues counts since the Source started. LastBad describes the last one.
	BadValues uint64
	LastBad   string
	Rebuild   time.Duration
}

// Guest returns the port of a punt, or nil. datapathKey is the packet's metadata (ovn-sb(5), Datapath_Binding
// tunnel_key), portKey its register 14 (Port_Binding tunnel_key).
func (s *Snapshot) Guest(datapathKey, portKey uint32) *Port {
	n, ok := s.byKey.Get(datapathKey)
	if !ok {
		return nil
	}
	return n.ports.byKey[PipelineKey(datapathKey, portKey)]
}

// PortByName finds a guest port by Logical_Switch_Port.name (external_ids:iface-id).
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

func (s *Snapshot) CountRetained(ifaces []string) int {
	n := 0
	for _, iface := range s.retained {
		if slices.Contains(ifaces, iface) {
			n++
		}
	}
	return n
}

func (s *Snapshot) Chassis() [16]byte { return s.chassis }

func (s *Snapshot) HasChassis() bool { return s.chassis != [16]byte{} }

// Guests yields the local and retained guests. Once HasRouterScopes is true, Guests omits guests without a
// RouterScope.
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

// Resolve returns the network of a reference, and how many match. Several matches give nil: any tenant may
// take a name.
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

func (s *Snapshot) NetworkByName(name string) *Network {
	n, _ := s.Resolve(SwitchRef{Name: name})
	return n
}

// DNSStage returns the ingress table of ls_in_dns_lookup (ovn-sb(5), table_id, to which ovn-controller adds
// 8), and the first 32 bits of its rows' UUIDs.
func (s *Snapshot) DNSStage() (tableID int, cookies []uint32, ok bool) {
	return s.stage.Table, s.stage.Cookies, len(s.stage.Cookies) > 0
}

// HasMachine is HasWorkload on the network or in its RouterScope. It needs Requests.DNSServers.
func (s *Snapshot) HasMachine(n *Network, a netip.Addr) bool {
	scope := s.RouterScope(n.ID)
	return n.Directory.HasMachine(a) || scope.Own != nil && scope.HasMachine(a)
}

// StatefulTable returns the table of ls_in_pre_stateful, the last stage before connection tracking and ACLs,
// or 0.
func (s *Snapshot) StatefulTable() int { return s.stage.Stateful }

type Stage struct {
	Table    int
	Cookies  []uint32
	Stateful int
}
