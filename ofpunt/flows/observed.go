// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"slices"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// observed are puntdns's flows in the switch, of any process, as the switch has reported them.
type observed struct {
	flows map[flowKey]*flow
	// version changes with flows, and generations counts them by process.
	version     uint64
	generations map[uint64]int
	// highest is the highest generation of any flow so far, gone ones included.
	highest uint64
	// collision is set when another program has added a flow with the generation of this process: by chance
	// another process has the same generation.
	collision bool
	// lost counts the flows of this process that another program has removed or changed.
	lost int
	// released is set once the process of the lease flow has released it, until another lease flow is
	// installed: the released one may be gone before anybody has looked.
	released bool
	// expired is set once the lease flow of this process has expired, until it is installed again.
	expired bool
}

func newObserved() observed {
	return observed{flows: map[flowKey]*flow{}, generations: map[uint64]int{}}
}

func (s *observed) set(f *flow) {
	s.remove(f.key)
	s.flows[f.key] = f
	g := generationOf(f.mod.Cookie)
	s.generations[g]++
	if f.key == leaseKey {
		s.released = g == releasedGeneration
	}
	s.highest = max(s.highest, g)
}

func (s *observed) remove(key flowKey) {
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
func (s *observed) read(f *openflow.FlowStats) {
	if !ours(f.Cookie) {
		return
	}
	b := bareFlow(f.Table, f.Priority, f.Cookie, f.Match)
	if had := s.flows[b.key]; had == nil || had.mod.Cookie != f.Cookie {
		s.set(b)
	}
}

// update takes an event of a flow monitor, and reports whether it is about a flow of puntdns's. own is the
// generation of this process. update decides that a flow of this process is lost: the next
// [machine.difference] puts it back.
func (s *observed) update(u *openflow.FlowUpdate, own uint64) bool {
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
		case mine && !timedOut(u):
			s.lost++
		case mine && key == leaseKey:
			s.expired = true
		}
		return true
	}
	if u.Event == openflow.FlowAdded && isOf(u.Cookie, own) {
		s.collision = true
	}
	switch {
	case mine && u.Cookie == had.mod.Cookie:
		if u.Event == openflow.FlowModified {
			// Another program did it: changes of this connection come as FlowOwn.
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

// timedOut reports whether the flow went by its hard timeout.
func timedOut(u *openflow.FlowUpdate) bool {
	const hardTimeout = 1 // OFPRR_HARD_TIMEOUT
	return u.Reason == hardTimeout
}

// lease is the lease flow that is installed, of whatever process, or the release of it. An entry
// flow that a dead process left says nothing; its lease flow would have expired.
func (s *observed) lease() observedLease {
	if f := s.flows[leaseKey]; f != nil {
		return observedLease{true, generationOf(f.mod.Cookie)}
	}
	return observedLease{s.released, releasedGeneration}
}

// hasLease reports whether the lease flow of a generation is installed.
func (s *observed) hasLease(generation uint64) bool {
	f := s.flows[leaseKey]
	return f != nil && isOf(f.mod.Cookie, generation)
}

// knownLease returns the lease flow of a generation if it is installed and its actions are
// known, else nil. They are not known of one from before the connection, and to change that
// one would remove its actions.
func (s *observed) knownLease(generation uint64) *flow {
	if f := s.flows[leaseKey]; s.hasLease(generation) && len(f.mod.Actions) > 0 {
		return f
	}
	return nil
}

// closed are the guests whose packets the switch drops while there is no lease flow.
func (s *observed) closed() map[placement.Key]bool {
	all := map[placement.Key]bool{}
	for _, f := range s.flows {
		if guest, ok := placement.ClosedGuest(&f.mod); ok {
			all[guest] = true
		}
	}
	return all
}

// rebind has flows added again whose meters were added just now: those that stand name what the
// switch had before.
func (s *observed) rebind(named []*flow) {
	for _, f := range named {
		if had := s.flows[f.key]; had != nil {
			s.set(had.changed())
		}
	}
}

// applied takes in changes that the switch has carried out.
func (s *observed) applied(mods []openflow.FlowMod, flows []*flow) {
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
// the entry flows before what they lead to.
func (s *observed) superfluous(unwanted func(*flow) bool) []openflow.FlowMod {
	var mods []openflow.FlowMod
	for _, f := range s.flows {
		if unwanted(f) {
			mods = append(mods, f.removal())
		}
	}
	slices.SortFunc(mods, func(a, b openflow.FlowMod) int {
		return cmp.Or(cmp.Compare(depth(a.Table), depth(b.Table)), cmp.Compare(a.Table, b.Table), cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Match.Key(), b.Match.Key()))
	})
	return mods
}

// depth orders tables: flows lead from one to another of a higher depth, or out of all of
// ours.
func depth(table uint8) int {
	switch table {
	case placement.PuntTable:
		return 3
	case placement.PrivateTable:
		return 2
	case placement.AddressTable:
		return 1
	default:
		return 0
	}
}
