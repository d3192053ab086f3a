// SPDX-License-Identifier: Apache-2.0

package ovn

// BadValues returns the values that can't be used now. During an outage they stay as they were at its
// beginning.
func (s *Source) BadValues() BadValues {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bad.sum()
}

// noteProblems notes and logs the problems of a row, nil for a deleted row.
func (w *world) noteProblems(row badRow, p *problems) {
	for _, text := range w.bad.set(row, p) {
		w.log.add(notice{true, text})
	}
}

// noteNetworks notes and logs the problems of the networks that build has made.
func (w *world) noteNetworks(next *Snapshot) {
	for id := range w.dirty {
		var found *problems
		if p, ok := w.builtProblems[id]; ok {
			found = &p
		}
		w.noteProblems(badOfNetwork(id), found)
	}
	w.builtProblems = nil
	next.Stats.BadValues, next.Stats.LastBad = w.bad.count, w.bad.last
}
