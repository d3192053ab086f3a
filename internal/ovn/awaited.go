// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// claimPatience is how long the port of an interface is left to come by its chassis before it is
// asked for by its name. ovn-controller claims a port within milliseconds, but a server that is busy
// with many guests at once takes seconds to tell of it, and to be asked for each of them by name would
// add a look at all ports for each.
const claimPatience = 10 * time.Second

// plug sets the ports that have an interface here, sorted.
func (w *world) plug(names []string, now time.Time) {
	if slices.Equal(names, w.plugged) {
		return
	}
	at := make(map[string]time.Time, len(names))
	for _, name := range names {
		at[name] = now
		if since, ok := w.pluggedAt[name]; ok {
			at[name] = since
		}
	}
	w.plugged, w.pluggedAt = names, at
	w.conditionsDirty = true
}

// isFresh reports whether a port has an interface here, and its chassis may still be about to claim it.
func (w *world) isFresh(name string, now time.Time) bool {
	since, ok := w.pluggedAt[name]
	return ok && now.Before(since.Add(claimPatience))
}

// awaited returns the ports that have had an interface here for claimPatience and that no condition
// brings on the chassis or on the datapaths that are wanted: such a port may be on its way here and
// to further chassis at once, and so may its containers, which have no interface. again is when that
// may be so of more interfaces, zero for never.
//
// Whether a port is missing is known as long as the rows are those of this chassis and the database
// is in sync. While they are not, what is asked for stays.
func (s *southbound) awaited(want []ovsdb.UUID, now time.Time) (names []string, again time.Time) {
	w := s.world
	if len(w.plugged) == 0 || s.self == (ovsdb.UUID{}) {
		return nil, again
	}
	sure := s.status.Synced && slices.Contains(s.acknowledged.others, s.ownChassis())
	for _, name := range w.plugged {
		p := s.portNamed[name]
		comes := p != nil && s.comes(p, want)
		_, asked := slices.BinarySearch(s.latest.coverage.parents, name)
		switch due := w.pluggedAt[name].Add(claimPatience); {
		case comes, w.grace.isKept(name): // those that are kept are asked for already
		case asked || sure && !now.Before(due):
			names = append(names, name)
		case sure:
			again = earlier(again, due)
		}
	}
	return names, again
}

// comes reports whether conditions on the chassis or on datapaths bring a port, and its containers if
// it is here.
func (s *southbound) comes(p *binding, want []ovsdb.UUID) bool {
	switch {
	case p.chassis == s.self:
		return true
	case s.isHere(p):
		return len(p.additional) == 1
	}
	return contains(want, p.datapath)
}

// ownChassis identifies the conditions on the local chassis in conditionSet.others.
func (s *southbound) ownChassis() string { return "chassis " + s.self.String() }
