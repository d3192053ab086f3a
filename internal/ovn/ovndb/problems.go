// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/problem"
)

func (s *Source) BadValues() problem.Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bad.Sum()
}

func (s *Source) noteProblems(row problem.Row, p *problem.Set) {
	for _, text := range s.bad.Set(row, p) {
		s.log.add(notice{true, text})
	}
}

func (s *Source) noteNetworks(next *ovn.Snapshot) {
	for id := range s.dirty {
		var found *problem.Set
		if p, ok := s.builtProblems[id]; ok {
			found = &p
		}
		s.noteProblems(problem.OfNetwork(id), found)
	}
	s.builtProblems = nil
	next.Stats.BadValues, next.Stats.LastBad = s.bad.Count, s.bad.Last
}
