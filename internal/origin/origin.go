// SPDX-License-Identifier: Apache-2.0

// Package origin says who asked: the port of a switch that a query came in
// through, and how that travels in a context to the plugins of a chain.
package origin

import (
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

// String returns the UUID in the form of RFC 9562, section 4.
func (n Network) String() string {
	var b [36]byte
	hex.Encode(b[0:8], n[0:4])
	hex.Encode(b[9:13], n[4:6])
	hex.Encode(b[14:18], n[6:8])
	hex.Encode(b[19:23], n[8:10])
	hex.Encode(b[24:36], n[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// MAC is an Ethernet address.
type MAC [6]byte

// String returns the address as six hexadecimal bytes separated by colons.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// Origin is who asked. Everything in it comes from the switch (in_port,
// registers, the local databases), except MAC and Destination, which are the
// packet's own: no identity may rest on those two.
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
	// Lookup is set for a question that a plugin asks for its own ends while it
	// works on that of the guest, such as the target of a CNAME. Resumer is nil then.
	Lookup bool
}

// Resumer gives a paused packet back to the pipeline of the switch. Its error
// says that somebody has answered or resumed it before, or that the switch
// can't be reached.
type Resumer interface{ Resume() error }

// Key is the key of a context's value that is an *Origin, for contexts that are
// not made by NewContext.
type Key struct{}

// NewContext returns a context that carries o. The readers share o, so that it
// must not change afterwards.
func NewContext(ctx context.Context, o *Origin) context.Context {
	return context.WithValue(ctx, Key{}, o)
}

// FromContext returns the origin that ctx carries. It is false for a query that
// did not come through a punt.
func FromContext(ctx context.Context) (*Origin, bool) {
	o, ok := ctx.Value(Key{}).(*Origin)
	return o, ok && o != nil
}
