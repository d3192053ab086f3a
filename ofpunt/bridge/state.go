// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"maps"
	"time"

	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/refusals"
)

// State is what an operator sees of a bridge. To get it waits neither for the session nor for a switch that
// hangs.
type State struct {
	Name string
	// Server answers for the bridge, and Session is its connection, nil without one. View is nil before the
	// local database was read.
	Server  *Server
	Session *SessionState
	View    *ports.View
	// Waiting is why the bridge is not served, apart from the databases of names, empty if it is. Stalled is
	// why the switch waits for the local ovsdb-server, empty if it does not.
	Waiting, Stalled string
	// Failure is why there is no connection, nil if there is one or was none yet.
	Failure error
	// LocalUp is set while the local database is read. If it is not, LocalFailure is why, nil if it was not
	// tried yet.
	LocalUp      bool
	LocalFailure error
	// Retained is how many guests are served for the grace.
	Retained int
	// InFlight are the queries in the chains, and Connections the TCP connections of guests.
	InFlight, Connections int64
	// Refusals is what limits refuse guests.
	Refusals *refusals.Ledger
}

// SessionState is what a session shows an operator. It is immutable: the goroutine of the session replaces
// it whenever it has looked at its flows.
type SessionState struct {
	// Since is when the connection was opened.
	Since        time.Time
	ControllerID uint16
	// Version and DatapathID are the switch's.
	Version    string
	DatapathID uint64
	// Server is the server whose guests List has.
	Server *Server
	List   *guests.List
	// NotHere is [guests.Known.NotHere].
	NotHere map[string]string
	Placed  flows.Placed
	Flows   flows.State
	// MetersFailure is why limits are not enforced, empty if they are.
	MetersFailure string
}

// Unserved returns the logical ports that have an interface and are not served, sorted, without the ones whose type is
// never a guest.
func (s *SessionState) Unserved() []string { return unservedOf(s.NotHere) }

// State returns the state of the bridge. It is nil before the bridge has a server.
func (b *Bridge) State() *State {
	srv := b.current.Load()
	if srv == nil {
		return nil
	}
	out := &State{
		Name: b.name, Server: srv, Session: b.state.Load(), View: b.ports.View(),
		Waiting: b.waiting(), Stalled: b.stall.reason(), LocalUp: b.ports.DatabaseUp(),
		Retained: b.countKept(srv), InFlight: b.punts.InFlight(), Connections: int64(b.punts.Connections()), Refusals: &b.refusals,
	}
	if err := b.failure.Load(); err != nil {
		out.Failure = *err
	}
	if err := b.localFailure.Load(); err != nil {
		out.LocalFailure = *err
	}
	if out.Session != nil && b.conn.Load() == nil {
		out.Session = nil // it ends
	}
	return out
}

// showEnd shows that there is no session any more, and why.
func (b *Bridge) showEnd(err error) {
	b.state.Store(nil)
	if err != nil {
		b.failure.Store(&err)
	}
}

// show replaces what the session shows an operator.
func (s *session) show(srv *Server) {
	b := s.bridge
	next := &SessionState{
		Since: s.since, ControllerID: s.desired.controllerID, Version: s.conn.Version().String(), DatapathID: s.conn.DatapathID(),
		Server: srv, List: s.desired.list, Placed: s.reporter.last, Flows: s.flows.State(), MetersFailure: b.metersFailure,
	}
	if was := b.state.Load(); was != nil && maps.Equal(was.NotHere, b.unserved.found) {
		next.NotHere = was.NotHere
	} else {
		next.NotHere = maps.Clone(b.unserved.found)
	}
	b.state.Store(next)
}
