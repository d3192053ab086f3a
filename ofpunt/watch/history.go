// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/puntdns/puntdns/internal/control/api"
)

// history stores the newest api.WatchHistory events. A writer never waits: it drops its event if the slot is in
// use.
type history struct {
	newest atomic.Uint64 // number, from 1
	slots  [api.WatchHistory]past
}

// mu guards the event, whose number is 0 in an empty slot.
type past struct {
	mu    sync.Mutex
	event Event
}

func (h *history) put(e *Event) {
	e.number = h.newest.Add(1)
	s := &h.slots[e.number%api.WatchHistory]
	if !s.mu.TryLock() {
		return
	}
	if s.event.number < e.number {
		s.event = *e
	}
	s.mu.Unlock()
}

// oldest first
func (h *history) events() (all []Event) {
	for i := range h.slots {
		s := &h.slots[i]
		s.mu.Lock()
		if s.event.number > 0 {
			all = append(all, s.event)
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Event) int { return int(int64(a.number - b.number)) })
	return all
}
