// SPDX-License-Identifier: Apache-2.0

package names

import (
	"net/netip"

	"github.com/miekg/dns"
)

// Source is the kind of table that an answer comes from.
type Source uint8

const (
	noSource   Source = iota
	sourceDNS         // records of a DNS row
	sourcePort        // hostname of a port
)

func (s Source) String() string {
	return [...]string{noSource: "", sourceDNS: "dns", sourcePort: "port"}[s]
}

// Provenance is where an answer comes from.
type Provenance struct {
	// Source is the table of the addresses and PTR records, or of the RRs if there are no others.
	Source Source
	// OVNOwned is set for a row with options:ovn-owned=true. A query for its names must never leave the node.
	OVNOwned bool
}

var fromPorts = Provenance{Source: sourcePort}

// Answer is what a network knows about a name. Callers must not change the slices, which are shared.
type Answer struct {
	V4, V6 []netip.Addr
	// PTR are the targets of a reverse name, fully qualified and in presentation form.
	PTR []string
	// RRs are the records of other types, nil for none.
	RRs *RRs
	Provenance
	// The padding makes the size a multiple of 16 bytes, the words in which answers are copied. With 88 or 104
	// bytes a lookup takes half as long again.
	_ uint64
}

// SourceOf returns the Source of the records that answer a question of this type.
func (a *Answer) SourceOf(qtype uint16) Source {
	if qtype != dns.TypeANY && len(a.RRs.Of(qtype)) > 0 {
		return sourceDNS
	}
	return a.Source
}
