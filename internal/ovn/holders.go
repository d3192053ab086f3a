// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
)

// networksNamed returns the networks that have a name, sorted: those with rows, covered or not, and rowless
// ones. So a network that is still being read makes the name ambiguous.
func (w *world) networksNamed(name string) []origin.Network {
	ids := w.topology.networksNamed(name)
	for id, has := range w.grace.rowless {
		if has == name {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, origin.Network.Compare)
	return slices.Compact(ids)
}

// markName marks a name that may have other holders now.
func (w *world) markName(name string) { w.renamed[name] = struct{}{} }

// buildNames sets the holders of the marked names.
func (w *world) buildNames(e *Editor) {
	for name := range w.renamed {
		e.setHolders(name, w.networksNamed(name))
	}
	clear(w.renamed)
}
