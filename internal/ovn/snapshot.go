// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"iter"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
)

// Snapshot is an immutable picture of the networks, their ports and names. Its
// methods take no lock and may be called from any number of goroutines.
//
// A network is in a snapshot only as a whole: when every configured database
// has given all there is about it. So a port that a snapshot knows has all its
// names in that snapshot.
type Snapshot struct {
	// Time is when this snapshot replaced the one before, zero for the empty
	// snapshot that a Source starts with.
	Time time.Time
	// Settled is set when the snapshot has every guest of the local chassis: the
	// databases know the chassis and have acknowledged what it wants. It may be
	// unset again for the moment that a new guest's network needs.
	Settled bool
	// Stats sums up what is in the snapshot.
	Stats Stats

	networks sharded[origin.Network, *Network]
	byKey    sharded[uint32, *Network]
	byName   sharded[string, *Network]
	ports    sharded[string, *Port]
	// groups leads from a network whose scope is known to the first of those
	// that are joined, and joined from that to all of them.
	groups sharded[origin.Network, origin.Network]
	joined sharded[origin.Network, []*Network]
	// scoped is set while those are kept.
	scoped  bool
	stage   stage
	records int // names of DNS rows in Stats.Names
}

// Stats sums up a snapshot.
type Stats struct {
	// Networks, Ports and Names count what can be found: a name that stands in
	// one DNS row counts once, however many networks share the row.
	Networks, Ports, Rows, Names int
	// BadValues counts the addresses and names that could not be read, ever
	// since the Source started.
	BadValues uint64
	// Rebuild is how long it took to make this snapshot from the one before.
	Rebuild time.Duration
}

// Guest returns the port that a punt came from: datapathKey is the packet's
// metadata (Datapath_Binding.tunnel_key), portKey its register 14
// (Port_Binding.tunnel_key). It is nil if they belong to no guest.
func (s *Snapshot) Guest(datapathKey, portKey uint32) *Port {
	n, ok := s.byKey.get(datapathKey)
	if !ok {
		return nil
	}
	return n.ports.byKey[pipelineKey(datapathKey, portKey)]
}

// PortByName returns the guest port of that name (Logical_Switch_Port.name,
// which is what external_ids:iface-id holds on an Interface), or nil.
func (s *Snapshot) PortByName(name string) *Port {
	p, _ := s.ports.get(name)
	return p
}

// Guests gives the guests that are bound to the local chassis, in no order. After
// Source.JoinNetworks only those are guests whose whole RouterScope is known.
func (s *Snapshot) Guests() iter.Seq[*Port] {
	return func(yield func(*Port) bool) {
		for id, n := range s.networks.all() {
			if _, ok := s.groups.get(id); s.scoped && !ok {
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

// Network returns the network of that id, or nil.
func (s *Snapshot) Network(id origin.Network) *Network {
	n, _ := s.networks.get(id)
	return n
}

// NetworkByName returns the network of that Logical_Switch.name, or nil. Names
// are not unique: of several networks it is the one with the lowest UUID.
func (s *Snapshot) NetworkByName(name string) *Network {
	n, _ := s.byName.get(name)
	return n
}

// DNSStage returns where ls_in_dns_lookup stands in the ingress pipeline:
// Logical_Flow.table_id, to which the switch adds OVN's base (8), and the
// cookies of the stage's flows, which are the first 32 bits of the UUIDs of the
// Logical_Flow rows, sorted. It is false until the Southbound database has told.
func (s *Snapshot) DNSStage() (tableID int, cookies []uint32, ok bool) {
	return s.stage.table, s.stage.cookies, len(s.stage.cookies) > 0
}

// stage is where OVN's own DNS stands.
type stage struct {
	table   int
	cookies []uint32
}
