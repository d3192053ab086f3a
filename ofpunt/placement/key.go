// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"bytes"
	"cmp"

	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Registers of OVN's pipeline (ovn-architecture(7), "logical input port field"; OVN's include/ovn/logical-fields.h).
const (
	// RegInPort holds the tunnel key of the logical input port.
	RegInPort = 14
	// RegZone holds the conntrack zone of the logical input port.
	RegZone = 13
)

// Key identifies a guest in the switch: its flows match these values.
type Key struct {
	// Datapath and Port are the tunnel keys of the logical switch and port; without OVN 0 and the OpenFlow port.
	Datapath, Port uint32
	// MAC is the only served source address, zero for any: OVN's port security checks most guests. External ports
	// share a localnet port, so only the source address identifies the sender.
	MAC [6]byte
}

// Compare orders keys by datapath, port and MAC address.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Datapath, o.Datapath), cmp.Compare(k.Port, o.Port), bytes.Compare(k.MAC[:], o.MAC[:]))
}

// KeyOf returns the key of a packet's sender. atLocalnet, for packets from a localnet port, adds the source address;
// ok is false without one. Without OVN the key has no MAC, although the guest's key may.
func KeyOf(kind Kind, in *openflow.PacketIn, atLocalnet bool) (k Key, ok bool) {
	if kind != OVN {
		return Key{Port: in.InPort}, true
	}
	k, ok = Key{Datapath: uint32(in.Metadata), Port: in.Regs[RegInPort]}, true
	if atLocalnet {
		k.MAC, ok = frame.SenderMAC(in.Data)
	}
	return k, ok
}

func (k *Key) match(kind Kind) []openflow.Field {
	fields := []openflow.Field{openflow.InPort(k.Port)}
	if kind == OVN {
		fields = []openflow.Field{openflow.Metadata(uint64(k.Datapath)), openflow.Reg(RegInPort, k.Port)}
	}
	if k.MAC != ([6]byte{}) {
		fields = append(fields, openflow.EthSrc(k.MAC))
	}
	return fields
}

func readKey(kind Kind, m openflow.Match) (k Key, ok bool) {
	port := openflow.InPort(0)
	if kind == OVN {
		port = openflow.Reg(RegInPort, 0)
		datapath, _ := m.Value(openflow.Metadata(0))
		k.Datapath = uint32(datapath)
	}
	number, ok := m.Value(port)
	k.Port = uint32(number)
	if mac, has := m.Value(openflow.EthSrc([6]byte{})); has {
		for i := range k.MAC {
			k.MAC[i] = byte(mac >> (8 * (len(k.MAC) - 1 - i)))
		}
	}
	return k, ok
}

// Role is what a flow of a plan does.
type Role uint8

const (
	// RoleNone is the role of other flows.
	RoleNone Role = iota
	// RoleLease is the leased flow.
	RoleLease
	// RoleOnward returns a packet to the pipeline while there is no lease.
	RoleOnward
	// RoleClosed drops packets of a closed guest while there is no lease.
	RoleClosed
	// RoleLimit punts packets of one guest within its limit.
	RoleLimit
	// RoleQuery is an entry flow for queries.
	RoleQuery
	// RoleNeighbor is an entry flow for ARP requests or neighbour solicitations.
	RoleNeighbor
	// RoleEgress leads to RoleNetwork and RoleOpening, which allow destinations: by a policy, and by an answer. It drops
	// fragments to others.
	RoleEgress
	RoleNetwork
	RoleOpening
)

// String returns the word of "puntctl explain" for the role.
func (r Role) String() string {
	switch r {
	case RoleLease:
		return "punt"
	case RoleOnward:
		return "onward"
	case RoleClosed:
		return "closed"
	case RoleLimit:
		return "limit"
	case RoleQuery:
		return "query"
	case RoleNeighbor:
		return "neighbor"
	}
	if r.isEgress() {
		return "egress"
	}
	return "none"
}

func (r Role) isEgress() bool { return r == RoleEgress || r == RoleNetwork || r == RoleOpening }

// Read returns the role of a flow of a plan, and its guest, zero if it serves several. Without OVN an IPv6 packet
// matches two entry flows; counts is false for the first.
func Read(kind Kind, f *openflow.FlowStats) (role Role, guest Key, counts bool) {
	if f.Table == PrivateTable {
		switch f.Priority {
		case PriorityLease:
			return RoleLease, guest, false
		case PriorityOnward:
			return RoleOnward, guest, false
		case priorityClosed:
			if guest, ok := readKey(kind, f.Match); ok {
				return RoleClosed, guest, false
			}
		}
		return RoleNone, guest, false
	}
	guest, ok := readKey(kind, f.Match)
	switch {
	case !ok:
		return RoleNone, guest, false
	case f.Table == PuntTable:
		return RoleLimit, guest, false
	case f.Table == EgressTable && f.Priority == priorityNetwork:
		return RoleNetwork, guest, false
	case f.Table == EgressTable:
		return RoleOpening, guest, false
	case kind == OVN && f.Priority == priorityEgress:
		return RoleEgress, guest, false
	}
	ethernet, _ := f.Match.Value(openflow.EthType(0))
	counts = kind == OVN || f.Table == AddressTable || ethernet != ethIPv6
	_, isARP := f.Match.Value(openflow.ARPOp(0))
	_, isND := f.Match.Value(openflow.ICMPv6Type(0))
	if isARP || isND {
		return RoleNeighbor, guest, counts
	}
	return RoleQuery, guest, counts
}
