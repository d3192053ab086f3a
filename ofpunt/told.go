// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"maps"
	"time"

	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/guests"
)

// sessionState is what a session tells of itself for an operator. It is immutable: the goroutine
// of the session replaces it whenever it has looked at its flows. So who asks neither waits for that
// goroutine nor for a switch that hangs.
type sessionState struct {
	since        time.Time
	controllerID uint16
	server       *server
	// list is the list of desired.
	list *guests.List
	// unserved has the reasons of interfaces that are not served, by logical port.
	unserved map[string]string
	placed   flows.Placed
	flows    flows.State
	// unmetered is why limits are not enforced, empty if they are.
	unmetered string
}

// tellEnd says that there is no session any more, and why.
func (b *bridge) tellEnd(err error) {
	b.told.Store(nil)
	if err != nil {
		b.failure.Store(&err)
	}
}

// tell replaces what the session tells of itself.
func (s *session) tell(srv *server) {
	b := s.bridge
	next := &sessionState{
		since: s.since, controllerID: s.desired.controllerID, server: srv,
		list: s.desired.list, placed: s.reporter.last, flows: s.flows.State(), unmetered: b.unmetered,
	}
	if was := b.told.Load(); was != nil && maps.Equal(was.unserved, b.unserved.logged) {
		next.unserved = was.unserved
	} else {
		next.unserved = maps.Clone(b.unserved.logged)
	}
	b.told.Store(next)
}
