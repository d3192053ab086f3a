// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

// NetworksNamed returns the networks with a name, sorted. Networks that are not covered yet make a name
// ambiguous already.
func (s *Source) NetworksNamed(name string) []origin.Network {
	ids := s.topology.NetworksNamed(name)
	for id, has := range s.grace.rowless {
		if has == name {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, origin.Network.Compare)
	return slices.Compact(ids)
}

func (s *Source) markName(name string) { s.renamed[name] = struct{}{} }

func (s *Source) buildNames(e *ovn.Editor) {
	for name := range s.renamed {
		e.SetHolders(name, s.NetworksNamed(name))
	}
	clear(s.renamed)
}
