// SPDX-License-Identifier: Apache-2.0

// Package origin identifies the guest of a query. The punt server puts an [Origin] into the context of a chain, and
// plugins read it there:
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

	"github.com/puntdns/puntdns/internal/opening"
)

// Network identifies a tenant network by the UUID of its Northbound Logical_Switch: tunnel keys and names are reused.
// The zero value is no network.
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

// Origin is the guest of a query. The fields come from the switch (in_port, registers) and the local databases, except
// MAC and Destination, which come from the packet. Only external ports of OVN are identified by their MAC: nothing else
// distinguishes them.
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
	// Attributes are further columns of the port, nil for none.
	Attributes Attributes
	// MAC is the source address of the frame.
	MAC MAC
	// Destination is the destination of the query.
	Destination netip.AddrPort
	// Hijacked is set if queries to any server are punted. Destination is then a server of the guest's choice, which
	// may know other names than the plugins.
	Hijacked bool
	// Resumer sends the packet on to Destination. It is nil if the switch does not hold the packet.
	Resumer Resumer
	// Opener has the switch let the guest send to addresses, also for a Lookup. It is nil where the switch enforces no egress
	// policies.
	Opener opening.Opener
	// Lookup is set for a lookup by a plugin during the query, such as the target of a CNAME. Resumer is nil then.
	Lookup bool
}

// Attributes are the columns of a port that labels of metadata read. They are immutable.
type Attributes interface {
	// Routers returns the names of the logical routers on the port's switch, sorted, each once, separated by commas.
	Routers() string
	// Groups returns the names of the port groups (ovn-nb(5), Port_Group) that the port is in: sorted, each
	// once, separated by commas.
	Groups() string
	// ExternalID returns the value of a key of the port's external_ids, "" for none.
	ExternalID(key string) string
}

// Resumer returns a punted packet to the pipeline of the switch. The error says that the packet was answered or resumed
// before, or that the switch can't be reached.
type Resumer interface{ Resume() error }

// Key is the context key of an *Origin, for implementations of context.Context.
type Key struct{}

// NewContext returns a context with o, which must not change afterwards.
func NewContext(ctx context.Context, o *Origin) context.Context {
	return context.WithValue(ctx, Key{}, o)
}

// FromContext returns the origin of ctx, and reports whether ctx has one: a query from a socket has none.
func FromContext(ctx context.Context) (o *Origin, punted bool) {
	o, punted = ctx.Value(Key{}).(*Origin)
	return o, punted && o != nil
}
