// SPDX-License-Identifier: Apache-2.0

package ovn

import "github.com/puntdns/puntdns/internal/origin"

// rowlessNetwork returns a network whose rows are gone as it was, with its retained guests
// only. It returns nil if there are none.
func (w *world) rowlessNetwork(old *Network) *Network {
	if old == nil {
		return nil
	}
	guests := w.grace.of(old.ID)
	if len(guests) == 0 {
		delete(w.grace.rowless, old.ID)
		return nil
	}
	if w.grace.rowless == nil {
		w.grace.rowless = make(map[origin.Network]string)
	}
	w.grace.rowless[old.ID] = old.Name
	w.builtProblems[old.ID] = w.bad.ofNetwork(old.ID)
	return old.withRetained(guests)
}
