// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"slices"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// observed are puntdns's flows in the switch, of any process.
type observed struct {
	flows map[flowKey]*flow
	// version changes with flows. generations counts flows by process.
	version     uint64
	generations map[uint64]int
	// highest is the highest generation ever seen.
	highest uint64
	// collision is set if another process has, by chance, this process's generation.
	collision bool
	lost      int
	// released is set from the release of the lease flow until another is installed. The released flow may be gone
	// unseen.
	released bool
	// expired lasts from the expiry of this process's lease flow to its return.
	expired bool
}

func newObserved() observed {
	return observed{flows: map[flowKey]*flow{}, generations: map[uint64]int{}}
}

func (s *observed) set(f *flow) {
	s.remove(f.key)
	s.version++
	s.flows[f.key] = f
	g := generationOf(f.mod.Cookie)
	s.generations[g]++
	if f.key == leaseKey {
		s.released = g == releasedGeneration
	}
	s.highest = max(s.highest, g)
}

func (s *observed) remove(key flowKey) {
	f := s.flows[key]
	if f == nil {
		return
	}
	s.version++
	delete(s.flows, key)
	g := generationOf(f.mod.Cookie)
	if s.generations[g]--; s.generations[g] == 0 {
		delete(s.generations, g)
	}
}

func (s *observed) read(f *openflow.FlowStats) {
	if !ours(f.Cookie) {
		return
	}
	b := bareFlow(f.Table, f.Priority, f.Cookie, f.Match)
	if had := s.flows[b.key]; had == nil || had.mod.Cookie != f.Cookie {
		s.set(b)
	}
}

// update reports whether a monitor's event is about a flow of puntdns. own is this process's generation. The next
// [machine.difference] restores flows counted in lost.
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
			// Another program: this connection's changes come as FlowOwn.
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
		// A flow from before the monitor is an earlier process's.
		s.lost++
	}
	return true
}

func timedOut(u *openflow.FlowUpdate) bool {
	const hardTimeout = 1 // OFPRR_HARD_TIMEOUT
	return u.Reason == hardTimeout
}

// lease returns the lease flow of any process, or its release. Entry flows prove no living process.
func (s *observed) lease() observedLease {
	if f := s.flows[leaseKey]; f != nil {
		return observedLease{true, generationOf(f.mod.Cookie)}
	}
	return observedLease{s.released, releasedGeneration}
}

func (s *observed) hasLease(generation uint64) bool {
	f := s.flows[leaseKey]
	return f != nil && isOf(f.mod.Cookie, generation)
}

// knownLease returns a generation's lease flow, nil if its actions are unknown. They are if the flow is older than
// the connection; a modification would remove them.
func (s *observed) knownLease(generation uint64) *flow {
	if f := s.flows[leaseKey]; s.hasLease(generation) && len(f.mod.Actions) > 0 {
		return f
	}
	return nil
}

// closed are guests whose packets the switch drops without a lease flow.
func (s *observed) closed() map[placement.Key]bool {
	all := map[placement.Key]bool{}
	for _, f := range s.flows {
		if guest, ok := placement.ClosedGuest(&f.mod); ok {
			all[guest] = true
		}
	}
	return all
}

// rebind has flows added again, since their meters were.
func (s *observed) rebind(named []*flow) {
	for _, f := range named {
		if had := s.flows[f.key]; had != nil {
			s.set(had.changed())
		}
	}
}

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

// superfluous removes the flows that unwanted reports, entry flows before their targets.
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

// depth orders tables: flows lead to a higher depth, or from depth 0 to a higher number.
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
