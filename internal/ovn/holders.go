// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
)

// networksNamed returns the networks that have a name, sorted: those with rows, complete or not,
// and those that are served as they were last. A network that is still being read makes the name
// ambiguous already.
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

// markName marks a name that other networks may have now.
func (w *world) markName(name string) { w.renamed[name] = struct{}{} }

// buildNames sets which networks have the renamed names.
func (w *world) buildNames(e *Editor) {
	for name := range w.renamed {
		e.setHolders(name, w.networksNamed(name))
	}
	clear(w.renamed)
}
