// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"slices"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// standing is what stands in the switch of puntdns's flows, of any process, by what the
// switch has told.
type standing struct {
	flows map[flowKey]*flow
	// version changes with flows, and generations counts them by process.
	version     uint64
	generations map[uint64]int
	// highest is the highest generation of any flow so far, gone ones included.
	highest uint64
	// twin is set when somebody else has added a flow of this process's generation: by
	// chance another process has the same.
	twin bool
	// lost counts the flows of this process that somebody else has removed or changed.
	lost int
	// left is set once the process of the punt has said farewell, until another punt
	// stands: that one may be gone before anybody has looked.
	left bool
	// lapsed is set once the punt of this process has expired, until it stands again.
	lapsed bool
}

func newStanding() standing {
	return standing{flows: map[flowKey]*flow{}, generations: map[uint64]int{}}
}

func (s *standing) set(f *flow) {
	s.remove(f.key)
	s.flows[f.key] = f
	g := generationOf(f.mod.Cookie)
	s.generations[g]++
	if f.key == puntKey {
		s.left = g == farewell
	}
	s.highest = max(s.highest, g)
}

func (s *standing) remove(key flowKey) {
	s.version++
	f := s.flows[key]
	if f == nil {
		return
	}
	delete(s.flows, key)
	g := generationOf(f.mod.Cookie)
	if s.generations[g]--; s.generations[g] == 0 {
		delete(s.generations, g)
	}
}

// read takes in a flow that the switch has been asked for, unless it is known.
func (s *standing) read(f *openflow.FlowStats) {
	if !ours(f.Cookie) {
		return
	}
	b := bareFlow(f.Table, f.Priority, f.Cookie, f.Match)
	if had := s.flows[b.key]; had == nil || had.mod.Cookie != f.Cookie {
		s.set(b)
	}
}

// told takes in an event of a flow monitor, and reports whether it is about a flow of
// puntdns's. own is the generation of this process.
func (s *standing) told(u *openflow.FlowUpdate, own uint64) bool {
	switch u.Event {
	case openflow.FlowInitial, openflow.FlowAdded, openflow.FlowModified, openflow.FlowRemoved:
	default:
		return false
	}
	key := keyOfUpdate(u)
	had := s.flows[key]
	if had == nil && !ours(u.Cookie) {
		return false
	}
	if ours(u.Cookie) {
		s.highest = max(s.highest, generationOf(u.Cookie))
	}
	mine := had != nil && isOf(had.mod.Cookie, own)
	if u.Event == openflow.FlowRemoved {
		if had != nil {
			s.remove(key)
		}
		switch {
		case mine && !expired(u):
			s.lost++
		case mine && key == puntKey:
			s.lapsed = true
		}
		return true
	}
	if u.Event == openflow.FlowAdded && isOf(u.Cookie, own) {
		s.twin = true
	}
	switch {
	case mine && u.Cookie == had.mod.Cookie:
		if u.Event == openflow.FlowModified {
			// By somebody else: what we change ourselves comes as FlowOwn.
			s.set(had.changed())
			s.lost++
		}
		return true
	case ours(u.Cookie):
		s.set(bareFlow(u.Table, u.Priority, u.Cookie, u.Match))
	default:
		s.remove(key)
	}
	if mine && u.Event != openflow.FlowInitial {
		// One that stood before the monitor did is an earlier process's.
		s.lost++
	}
	return true
}

// expired reports whether the flow went by its hard timeout.
func expired(u *openflow.FlowUpdate) bool {
	const hardTimeout = 1 // OFPRR_HARD_TIMEOUT
	return u.Reason == hardTimeout
}

// punt is the leased flow that stands, of whatever process, or its farewell. An entry flow
// that a dead one left says nothing; its punt would have expired.
func (s *standing) punt() standingPunt {
	if f := s.flows[puntKey]; f != nil {
		return standingPunt{true, generationOf(f.mod.Cookie)}
	}
	return standingPunt{s.left, farewell}
}

// hasPunt reports whether the leased flow of a generation stands.
func (s *standing) hasPunt(generation uint64) bool {
	f := s.flows[puntKey]
	return f != nil && isOf(f.mod.Cookie, generation)
}

// knownPunt is the leased flow of a generation if it stands and all of it is known, else
// nil: of one that stood before the connection did, the actions are not known, and to
// change it would take them away.
func (s *standing) knownPunt(generation uint64) *flow {
	if f := s.flows[puntKey]; s.hasPunt(generation) && len(f.mod.Actions) > 0 {
		return f
	}
	return nil
}

// applied takes in changes that the switch has carried out.
func (s *standing) applied(mods []openflow.FlowMod, flows []*flow) {
	for i := range mods {
		if mods[i].Command == openflow.DeleteStrict {
			s.remove(keyOf(&mods[i]))
		}
	}
	for _, f := range flows {
		s.set(f)
	}
}

// superfluous are the flows that unwanted reports, in the order in which they are to go:
// the entry flows before the private table, which is the highest, so that nothing leads
// to what is gone.
func (s *standing) superfluous(unwanted func(*flow) bool) []openflow.FlowMod {
	var mods []openflow.FlowMod
	for _, f := range s.flows {
		if unwanted(f) {
			mods = append(mods, f.removal())
		}
	}
	slices.SortFunc(mods, func(a, b openflow.FlowMod) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Match.Key(), b.Match.Key()))
	})
	return mods
}
