// SPDX-License-Identifier: Apache-2.0

package names

import (
	"net/netip"

	"github.com/miekg/dns"
)

// Source is the table that an answer comes from.
type Source uint8

const (
	noSource   Source = iota
	sourceDNS         // records of a DNS row
	sourcePort        // hostname of a port
)

// String returns "dns" for the records of a DNS row, "port" for the hostname of a port, and
// nothing for none.
func (s Source) String() string {
	return [...]string{noSource: "", sourceDNS: "dns", sourcePort: "port"}[s]
}

// Provenance says where an answer comes from.
type Provenance struct {
	// Source says which table the addresses and the PTR records come from. RRs come from a DNS
	// row; it is that where there is nothing else.
	Source Source
	// OVNOwned is set for a row with options:ovn-owned=true: a query for the
	// name must never leave the node.
	OVNOwned bool
}

// fromPorts is the provenance of the hostnames of ports.
var fromPorts = Provenance{Source: sourcePort}

// Answer is what a network knows of a name. The slices are shared: callers must
// not change them.
type Answer struct {
	// V4 and V6 are the addresses of the name.
	V4, V6 []netip.Addr
	// PTR are the targets of a name below in-addr.arpa or ip6.arpa, fully
	// qualified and in presentation form.
	PTR []string
	// RRs are the records of other types, nil for none.
	RRs *RRs
	Provenance
	// This makes the size a multiple of 16 bytes, the words that answers are copied in from one
	// function to the next: with 88 or 104 bytes a hit takes half as long again.
	_ uint64
}

// SourceOf is Source for the records that a question of that type is answered with.
func (a *Answer) SourceOf(qtype uint16) Source {
	if qtype != dns.TypeANY && len(a.RRs.Of(qtype)) > 0 {
		return sourceDNS
	}
	return a.Source
}
