// SPDX-License-Identifier: Apache-2.0

package names

import (
	"net/netip"

	"github.com/miekg/dns"
)

type Source uint8

const (
	noSource Source = iota
	sourceDNS
	sourcePort
)

func (s Source) String() string {
	return [...]string{noSource: "", sourceDNS: "dns", sourcePort: "port"}[s]
}

type Provenance struct {
	// Source is of the addresses and PTR records, or else of the RRs.
	Source Source
	// OVNOwned is set for a row with options:ovn-owned=true, whose names must never leave the node.
	OVNOwned bool
}

var fromPorts = Provenance{Source: sourcePort}

// Answer is what a network knows about a name. Callers must not change its shared slices.
type Answer struct {
	V4, V6 []netip.Addr
	// PTR are fully qualified targets in presentation form.
	PTR []string
	RRs *RRs
	Provenance
	// The size is a multiple of 16 bytes, the words in which answers are copied. With 88 or 104 bytes a
	// lookup takes half as long again.
	_ uint64
}

func (a *Answer) SourceOf(qtype uint16) Source {
	if qtype != dns.TypeANY && len(a.RRs.Of(qtype)) > 0 {
		return sourceDNS
	}
	return a.Source
}
