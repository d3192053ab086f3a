// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Registers of OVN's pipeline (ovn-architecture(7), "logical input port field";
// OVN's include/ovn/logical-fields.h).
const (
	// RegInPort holds the tunnel key of the logical input port.
	RegInPort = 14
	// RegZone holds the conntrack zone of the logical input port.
	RegZone = 13
)

// Key identifies a guest in the switch: its flows match these values.
type Key struct {
	// Datapath and Port are the tunnel keys of the logical switch and the logical port. Without OVN
	// Datapath is 0, and Port is the OpenFlow port.
	Datapath, Port uint32
	// MAC is the only source address that is served, zero for any. OVN checks the source address of a
	// guest with port security. External ports share the localnet port that their packets come by, so
	// only the source address shows which of them has sent a packet.
	MAC [6]byte
}

// KeyOf returns the key of the sender of a packet. atLocalnet is set if the packet came by a localnet
// port of OVN's: then the key has the source address. KeyOf reports whether the frame has one.
//
// Without OVN the key of a packet has no source address, although the key of a guest may have one.
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

// match returns the fields that match the packets of a guest.
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

// readKey is the inverse of match. It reports whether the match has a key.
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
	// RoleNone is the role of a flow that has none of the others.
	RoleNone Role = iota
	// RoleLease is the leased flow, which leads to the punts.
	RoleLease
	// RoleOnward sends a packet on that an entry flow has matched without a lease.
	RoleOnward
	// RoleClosed drops the packets of a closed guest without a lease.
	RoleClosed
	// RoleLimit punts the packets of one guest within its limit.
	RoleLimit
	// RoleQuery is an entry flow for DNS queries.
	RoleQuery
	// RoleNeighbor is an entry flow for ARP requests or neighbour solicitations.
	RoleNeighbor
)

// Read returns the role of a flow that a plan has placed, and the key of its guest, zero if it is not of
// one guest. It reports whether the flow is an entry flow that counts: without OVN a packet over IPv6
// matches two entry flows, and the second one counts.
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
