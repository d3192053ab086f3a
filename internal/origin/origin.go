// SPDX-License-Identifier: Apache-2.0

// Package origin says who has asked a query: by which port of which switch it came. The
// punt server puts an Origin into the context of a chain, and plugins read it there:
//
//	ofpunt ─ NewContext ─► ctx ─► plugins ─ FromContext ─► *Origin
//	                                      ─ Resume ──────► Resumer, of ofpunt
package origin

import (
	"bytes"
	"context"
	"encoding/hex"
	"net"
	"net/netip"
)

// Network identifies a tenant network for good: the UUID of its Northbound
// Logical_Switch. Tunnel keys and names are reused, UUIDs are not. The zero
// value is no network.
type Network [16]byte

// IsZero reports whether n is no network.
func (n Network) IsZero() bool { return n == Network{} }

// Compare returns the order of two networks by their UUIDs.
func (n Network) Compare(other Network) int { return bytes.Compare(n[:], other[:]) }

// String returns the UUID in the form of RFC 9562, section 4.
func (n Network) String() string { return string(n.AppendTo(nil)) }

// AppendTo appends String.
func (n Network) AppendTo(b []byte) []byte {
	b = append(hex.AppendEncode(b, n[0:4]), '-')
	b = append(hex.AppendEncode(b, n[4:6]), '-')
	b = append(hex.AppendEncode(b, n[6:8]), '-')
	b = append(hex.AppendEncode(b, n[8:10]), '-')
	return hex.AppendEncode(b, n[10:16])
}

// MAC is an Ethernet address.
type MAC [6]byte

// String returns the address as six hexadecimal bytes separated by colons.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// Origin is the guest that asks. All fields come from the switch (in_port, registers) and the local
// databases, except MAC and Destination, which the packet has. Only the identity of an external port of OVN
// rests on the MAC: nothing else distinguishes external ports.
type Origin struct {
	// Bridge is the name of the Open vSwitch bridge.
	Bridge string
	// InPort is the OpenFlow port on Bridge.
	InPort uint32
	// VLAN is the VLAN id of the guest's frames, 0 for untagged ones.
	VLAN uint16
	// Network is the network of the port, zero if it is not known.
	Network Network
	// Switch is the name of the logical switch. Names are not unique.
	Switch string
	// Port is the name of the logical port.
	Port string
	// Attributes are what the databases say of the port beside that, nil for nothing.
	Attributes Attributes
	// MAC is the source address of the frame.
	MAC MAC
	// Destination is where the guest sent its query.
	Destination netip.AddrPort
	// Hijacked is set where queries are taken whatever server they are for.
	// Destination then is a server of the guest's choice, which may know names
	// that no plugin does.
	Hijacked bool
	// Resumer sends the packet on to Destination. It is nil where the switch does
	// not hold the packet.
	Resumer Resumer
	// Lookup is set for a question that a plugin asks while it works on the guest's query, such as the target
	// of a CNAME. Resumer is nil then.
	Lookup bool
}

// Attributes are what the databases say of a port beside its identity, as far as labels of
// metadata ask for it. They are immutable.
type Attributes interface {
	// Routers returns the names of the logical routers that the port's switch is attached to:
	// sorted, each once, separated by commas.
	Routers() string
	// ExternalID returns the value of a key of the port's external_ids, "" if it has none.
	ExternalID(key string) string
}

// Resumer gives a punted packet back to the pipeline of the switch. Its error
// says that the packet was answered or resumed before, or that it can't be sent to
// the switch.
type Resumer interface{ Resume() error }

// Key is the context key of an *Origin, for contexts that NewContext does not make.
type Key struct{}

// NewContext returns a context that carries o. The readers share o, so that it
// must not change afterwards.
func NewContext(ctx context.Context, o *Origin) context.Context {
	return context.WithValue(ctx, Key{}, o)
}

// FromContext returns the origin that ctx carries, and reports whether it has one: a query
// from a socket has none.
func FromContext(ctx context.Context) (o *Origin, punted bool) {
	o, punted = ctx.Value(Key{}).(*Origin)
	return o, punted && o != nil
}
