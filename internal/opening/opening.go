// SPDX-License-Identifier: Apache-2.0

// Package opening connects plugin egress, which decides to which destinations a guest may send, and ofpunt, which
// opens them in the switch:
//
//	plugin egress ── Opener.Open, for an answer ──► ofpunt ──► flows of the guest
//	              ◄─ Policy, when one has changed ──
package opening

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// Destination is comparable.
type Destination struct {
	Address netip.Addr
	// Protocol is the IP protocol, 0 for any. Port needs a Protocol with ports; 0 for any.
	Protocol uint8
	Port     uint16
}

// Compare orders by address, protocol and port.
func (d Destination) Compare(e Destination) int {
	return cmp.Or(d.Address.Compare(e.Address), cmp.Compare(d.Protocol, e.Protocol), cmp.Compare(d.Port, e.Port))
}

// Protocols with ports (IANA).
var protocolNames = map[uint8]string{6: "tcp", 17: "udp", 132: "sctp"}

// ProtocolName returns the word of a protocol in policies, "" for any.
func ProtocolName(protocol uint8) string {
	if name := protocolNames[protocol]; name != "" || protocol == 0 {
		return name
	}
	return strconv.Itoa(int(protocol))
}

// String returns ADDRESS, ADDRESS/PROTOCOL or ADDRESS:PORT/PROTOCOL.
func (d Destination) String() string {
	switch {
	case d.Protocol == 0:
		return d.Address.String()
	case d.Port == 0:
		return d.Address.String() + "/" + ProtocolName(d.Protocol)
	}
	return netip.AddrPortFrom(d.Address, d.Port).String() + "/" + ProtocolName(d.Protocol)
}

// Network is all destinations in a prefix. It is comparable.
type Network struct {
	Prefix   netip.Prefix
	Protocol uint8
	Port     uint16
}

// AddNetworks appends the networks of more that list lacks.
func AddNetworks(list, more []Network) []Network {
	if len(more) == 0 {
		return list
	}
	known := make(map[Network]struct{}, len(list)+len(more))
	for _, n := range list {
		known[n] = struct{}{}
	}
	for _, n := range more {
		if _, ok := known[n]; !ok {
			known[n] = struct{}{}
			list = append(list, n)
		}
	}
	return list
}

// Policy is what the policies of a guest allow. Equal policies are ==; a changed policy is another one. Methods are
// safe for concurrent use.
type Policy interface {
	// Allows reports whether an answer to name, fully qualified, in lower case, may open a destination.
	Allows(name string, to Destination) bool
	// Networks are always open. The caller must not change the slice.
	Networks() []Network
	// Sum is a hash of what is allowed, equal in all processes.
	Sum() uint64
}

// Union allows what a or b allows; either may be nil. Unions of the same policies are ==.
func Union(a, b Policy) Policy {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return union{a, b}
}

type union struct{ a, b Policy }

func (u union) Allows(name string, to Destination) bool {
	return u.a.Allows(name, to) || u.b.Allows(name, to)
}

// Not stored: few guests have several policies.
func (u union) Networks() []Network {
	return AddNetworks(slices.Clone(u.a.Networks()), u.b.Networks())
}

func (u union) Sum() uint64 { return u.a.Sum() + u.b.Sum() }

// Answer is an answer that a guest is about to get.
type Answer struct {
	// Name is the question's, fully qualified, in lower case.
	Name string
	To   []Destination
	// Lasts is how long To stays open at least, even without packets.
	Lasts time.Duration
	// Trial opens nothing. Open returns what it would return if the switch confirmed.
	Trial bool
}

// Caller opens destinations for an answer.
type Caller interface {
	// LeaveReader runs before the caller blocks: it may be on the goroutine that reads from the switch.
	LeaveReader()
}

// CallerKey is the context key of the Caller of a query. Lookups by plugins have none.
type CallerKey struct{}

// Opener opens destinations for a guest.
type Opener interface {
	// Open returns once the switch has confirmed the destinations, or an error after a second, which may wrap ErrFull
	// or the cause of ctx. The caller must not change a.To afterwards.
	Open(ctx context.Context, a *Answer) error
	// Stands reports whether the switch has a destination open for answers to a name, and for lasts at least. Then the
	// destination counts as answered now.
	Stands(name string, to Destination, lasts time.Duration) bool
	// IsNode reports whether the switch knows an address as the node's, which no name opens.
	IsNode(a netip.Addr) bool
}

// Settings are a bridge's settings of openings. They are comparable, and zero without enforcement.
type Settings struct {
	// Bit marks packets to open destinations in pkt_mark. The bit below is used too.
	Bit uint8
	// Most bounds the open destinations of a guest, MostOfNetwork of a logical switch on this node.
	Most, MostOfNetwork int
	// Grace is how long a destination stays open after Lasts without packets.
	Grace time.Duration
}

// String returns the settings as properties of *egress*.
func (s Settings) String() string {
	return fmt.Sprintf("bit %d, max_addresses %d %d and grace %s", s.Bit, s.Most, s.MostOfNetwork, s.Grace)
}

// DefaultBit is the default of Settings.Bit.
const DefaultBit = 31

// ErrFull is that the guest, its network or the node has no room for open destinations.
var ErrFull = errors.New("too many open destinations")
