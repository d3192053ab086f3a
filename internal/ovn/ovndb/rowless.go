// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

// rowlessNetwork returns the last version of a network without rows, with its retained guests, or nil without
// any.
func (s *Source) rowlessNetwork(old *ovn.Network) *ovn.Network {
	if old == nil {
		return nil
	}
	guests := s.grace.Of(old.ID)
	if len(guests) == 0 {
		delete(s.grace.rowless, old.ID)
		return nil
	}
	if s.grace.rowless == nil {
		s.grace.rowless = make(map[origin.Network]string)
	}
	s.grace.rowless[old.ID] = old.Name
	s.builtProblems[old.ID] = s.bad.OfNetwork(old.ID)
	return old.WithRetained(guests)
}
