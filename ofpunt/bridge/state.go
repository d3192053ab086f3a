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

// State is what operators see of a bridge.
type State struct {
	Name string
	// Session is nil without a connection, View before the local database was read.
	Server  *Server
	Session *SessionState
	View    *ports.View
	// Waiting is why the bridge is not served, OVN databases aside, Stalled why the switch waits for the local
	// ovsdb-server; else empty.
	Waiting, Stalled string
	// Failure is why there is no connection, nil before the first attempt.
	Failure error
	// LocalUp is set while the local database is read. LocalFailure is why not, nil before the first attempt.
	LocalUp      bool
	LocalFailure error
	// Retained counts guests served for the grace.
	Retained int
	// InFlight counts queries in the chains, Connections guests' TCP connections.
	InFlight, Connections int64
	Refusals              *refusals.Ledger
}

// SessionState is what operators see of a session. It is immutable: the session replaces it.
type SessionState struct {
	Since        time.Time
	ControllerID uint16
	// Version and DatapathID are the switch's.
	Version    string
	DatapathID uint64
	// List has the guests of Server.
	Server *Server
	List   *guests.List
	// NotHere is [guests.Known.NotHere].
	NotHere map[string]string
	Placed  flows.Placed
	Flows   flows.State
	// MetersFailure is why limits are not enforced, else empty.
	MetersFailure string
}

// Unserved returns unserved logical ports with an interface, sorted, without types that are never guests.
func (s *SessionState) Unserved() []string { return unservedOf(s.NotHere) }

// State is nil before the first server. It waits for no session and no hanging switch.
func (b *Bridge) State() *State {
	srv := b.current.Load()
	if srv == nil {
		return nil
	}
	out := &State{
		Name: b.name, Server: srv, Session: b.state.Load(), View: b.ports.View(),
		Waiting: b.waiting(), Stalled: b.stall.reason(), LocalUp: b.ports.DatabaseUp(),
		Retained: b.countRetained(srv), InFlight: b.punts.InFlight(), Connections: int64(b.punts.Connections()), Refusals: &b.refusals,
	}
	if err := b.failure.Load(); err != nil {
		out.Failure = *err
	}
	if err := b.localFailure.Load(); err != nil {
		out.LocalFailure = *err
	}
	if out.Session != nil && b.conn.Load() == nil {
		out.Session = nil // the session is ending
	}
	return out
}

func (b *Bridge) showEnd(err error) {
	b.state.Store(nil)
	if err != nil {
		b.failure.Store(&err)
	}
}

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
