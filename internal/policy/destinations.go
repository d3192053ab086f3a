// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"

	"github.com/puntdns/puntdns/internal/opening"
)

type ends struct {
	protocol uint8
	port     uint16
}

// A port without a protocol is a port of TCP and of UDP.
func (e *Entry) ends() []ends {
	switch {
	case e.Port == 0:
		return []ends{{}}
	case e.Protocol == 0:
		return []ends{{uint8(TCP), e.Port}, {uint8(UDP), e.Port}}
	}
	return []ends{{uint8(e.Protocol), e.Port}}
}

// AppendDestinations appends the destinations at a that entries allow, some of them twice if entries overlap.
func AppendDestinations(all []opening.Destination, entries []*Entry, a netip.Addr) []opening.Destination {
	for _, e := range entries {
		if e.Port == 0 {
			return append(all, opening.Destination{Address: a})
		}
	}
	for _, e := range entries {
		for _, n := range e.ends() {
			all = append(all, opening.Destination{Address: a, Protocol: n.protocol, Port: n.port})
		}
	}
	return all
}

// Networks returns the networks that entries allow.
func (p *Policy) Networks() (all []opening.Network) {
	for i := range p.entries {
		if e := &p.entries[i]; e.Name == "" {
			for _, n := range e.ends() {
				all = append(all, opening.Network{Prefix: e.Prefix, Protocol: n.protocol, Port: n.port})
			}
		}
	}
	return all
}
