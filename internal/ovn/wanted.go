// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// SwitchRef refers to a logical switch, by one of the two. The zero SwitchRef refers to none.
type SwitchRef struct {
	// Name is the Logical_Switch.name, which need not be unique.
	Name string
	// ID is the UUID of the Northbound Logical_Switch.
	ID origin.Network
}

// ParseSwitchRef returns what a text refers to: what has the form of a UUID is one, in any
// case of its letters, and never a name. So nobody else can come to be meant by naming a
// switch like that.
func ParseSwitchRef(s string) (SwitchRef, error) {
	if id, err := ovsdb.ParseUUID(s); err == nil {
		if id == (ovsdb.UUID{}) {
			return SwitchRef{}, fmt.Errorf("%s: no row has this UUID", s)
		}
		return SwitchRef{ID: origin.Network(id)}, nil
	}
	return SwitchRef{Name: s}, nil
}

// IsZero reports whether r refers to no switch.
func (r SwitchRef) IsZero() bool { return r == SwitchRef{} }

// String is a UUID as it is, and a name in quotation marks.
func (r SwitchRef) String() string {
	if r.Name != "" {
		return fmt.Sprintf("%q", r.Name)
	}
	return r.ID.String()
}

func compareSwitchRefs(a, b SwitchRef) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), compareNetworks(a.ID, b.ID))
}

// wanted is which networks requests refer to. Source.mu guards it.
type wanted struct {
	// networks counts the requests with Requests.Network in force. compared counts those with
	// Requests.ComparedNames, by name: for these nothing is read.
	networks map[SwitchRef]int
	compared map[string]int
	// toldNetworks has what the log says last of networks that are not there just once;
	// toldCompared has the names that it calls ambiguous.
	toldNetworks map[SwitchRef]string
	toldCompared map[string]struct{}
}

func newWanted() wanted {
	return wanted{make(map[SwitchRef]int), make(map[string]int), make(map[SwitchRef]string), make(map[string]struct{})}
}

// sorted returns what networks are referred to by.
func (w *wanted) sorted() []SwitchRef {
	return slices.SortedFunc(maps.Keys(w.networks), compareSwitchRefs)
}

// has reports whether a network of that name and UUID is wanted.
func (w *wanted) has(name string, id origin.Network) bool {
	return w.networks[SwitchRef{Name: name}] > 0 || w.networks[SwitchRef{ID: id}] > 0
}

// count counts n more requests for a network, or fewer. It reports whether the network was
// wanted before.
func (w *wanted) count(r SwitchRef, n int) (had bool) {
	had = w.networks[r] > 0
	if w.networks[r] += n; w.networks[r] <= 0 {
		delete(w.networks, r)
		delete(w.toldNetworks, r)
	}
	return had
}

// compare counts n more requests that compare a name, or fewer.
func (w *wanted) compare(name string, n int) {
	if w.compared[name] += n; w.compared[name] <= 0 {
		delete(w.compared, name)
		delete(w.toldCompared, name)
	}
}

// Values of toldNetworks.
const (
	toldMissing   = "missing"
	toldAmbiguous = "ambiguous"
)

// tellWanted logs which networks that are wanted are not there, or there more than once, and
// when that is over: once everything that is wanted has been read. next has its names already.
func (w *world) tellWanted(next *Snapshot) {
	if !w.isAcknowledged() {
		return
	}
	for r := range w.wanted.networks {
		w.tellNetwork(next, r)
	}
	for name := range w.wanted.compared {
		_, told := w.wanted.toldCompared[name]
		switch _, count := next.Resolve(SwitchRef{Name: name}); {
		case count > 1 && !told:
			w.wanted.toldCompared[name] = struct{}{}
			w.log.Warningf("%s: a view or limit by ofpunt/switch takes them for one; ofpunt/network is never ambiguous", w.listNamed(name))
		case count <= 1 && told:
			delete(w.wanted.toldCompared, name)
			w.log.Infof("%d logical switches that are read here are named %q now: a view or limit may go by that name", count, name)
		}
	}
}

// tellNetwork logs a change of whether one network that is wanted is there.
func (w *world) tellNetwork(next *Snapshot, r SwitchRef) {
	named := fmt.Sprintf("is named %q", r.Name)
	if r.Name == "" {
		named = "has the UUID " + r.ID.String()
	}
	told, now := w.wanted.toldNetworks[r], ""
	switch _, count := next.Resolve(r); {
	case count == 0:
		now = toldMissing
	case count > 1:
		now = toldAmbiguous
	}
	switch {
	case now == told:
		return
	case now == toldMissing:
		w.log.Warningf("no logical switch %s, though one is asked for", named)
	case now == toldAmbiguous:
		w.log.Warningf("%s, though one is asked for: none of them is taken; the UUID of one is never ambiguous", w.listNamed(r.Name))
	case told == toldMissing:
		w.log.Infof("a logical switch %s now", named)
	default:
		w.log.Infof("just one logical switch %s now", named)
	}
	if w.wanted.toldNetworks[r] = now; now == "" {
		delete(w.wanted.toldNetworks, r)
	}
}

// maxListed bounds how many UUIDs a line of the log has.
const maxListed = 10

// listNamed says which networks have a name.
func (w *world) listNamed(name string) string {
	ids := w.networksNamed(name)
	var all []string
	for _, id := range ids[:min(len(ids), maxListed)] {
		all = append(all, id.String())
	}
	if more := len(ids) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%d logical switches are named %q (%s)", len(ids), name, strings.Join(all, ", "))
}

// networksNamed returns the networks that have a name, sorted: those that have rows, complete
// or not, since one that is about to come makes the name ambiguous already, and those that are
// kept without.
func (w *world) networksNamed(name string) []origin.Network {
	ids := w.topology.networksNamed(name)
	for id, has := range w.grace.stale {
		if has == name {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, compareNetworks)
	return slices.Compact(ids)
}

// markName marks a name that other networks may have now.
func (w *world) markName(name string) { w.renamed[name] = struct{}{} }

// nameHolders says which networks have a name.
type nameHolders struct {
	first origin.Network // the one with the lowest UUID
	count int
}

// buildNames updates which networks have the names of the next snapshot.
func (w *world) buildNames(prev, next *Snapshot) {
	e := prev.byName.Edit()
	for name := range w.renamed {
		had, _ := prev.byName.Get(name)
		switch ids := w.networksNamed(name); {
		case len(ids) == 0:
			e.Remove(name)
		case had != nameHolders{ids[0], len(ids)}:
			e.Set(name, nameHolders{ids[0], len(ids)})
		}
	}
	clear(w.renamed)
	next.byName = e.Done()
}
