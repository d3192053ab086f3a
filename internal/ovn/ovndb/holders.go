// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

// NetworksNamed returns the networks that have a name, sorted: those with rows, covered or not, and rowless
// ones. So a network that is still being read makes the name ambiguous.
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

// markName marks a name that may have other holders now.
func (s *Source) markName(name string) { s.renamed[name] = struct{}{} }

// buildNames sets the holders of the marked names.
func (s *Source) buildNames(e *ovn.Editor) {
	for name := range s.renamed {
		e.SetHolders(name, s.NetworksNamed(name))
	}
	clear(s.renamed)
}
