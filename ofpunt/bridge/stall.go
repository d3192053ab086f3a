// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync"
	"time"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
)

// stall decides whether the switch is silent because the local ovsdb-server is away. An
// ovs-vswitchd that loses its connection to ovsdb-server loses a lock there. Without the lock its
// main loop reads no message, sends no packet-in and expires no flow (bridge_run in
// vswitchd/bridge.c). So the lease can't end the punt.
//
// It is safe for concurrent use. The zero value is no stall.
type stall struct {
	mu sync.Mutex
	// away is set while the local ovsdb-server is away, and silent while the switch does not
	// answer. mu guards them and stalled.
	away, silent bool
	// stalled lasts until the switch answers, or for maxReturn after ovsdb-server is back:
	// ovs-vswitchd takes up to 8 s to connect to it.
	stalled bool
}

// maxReturn is how long a silent switch is put down to an ovsdb-server that is back.
const maxReturn = 15 * time.Second

// giveUp ends a stall whose ovsdb-server is back: the switch is silent for another reason.
func (s *stall) giveUp() { s.stalled = s.stalled && s.away }

// The reasons of a stall.
const (
	stalledAway = "the local ovsdb-server does not answer, and ovs-vswitchd does nothing without it: queries that are punted are lost until ovsdb-server is back, and the lease can't end the punt"
	stalledBack = "the local ovsdb-server is back, and ovs-vswitchd has not connected to it yet, which takes 8 s at most: queries that are punted are lost until then"
)

// update applies a change. It reports whether there was a stall before, and whether there is one now.
func (s *stall) update(change func(*stall)) (before, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
	before = s.stalled
	s.stalled = s.silent && (s.away || s.stalled)
	return before, s.stalled
}

// reason says why the switch is silent, empty if there is no stall.
func (s *stall) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.stalled:
		return ""
	case s.away:
		return stalledAway
	}
	return stalledBack
}

// isAway reports whether err means that ovsdb-server may be away for ovs-vswitchd too. Errors of
// permission and TLS concern puntdns alone.
func isAway(err error) bool {
	f := control.FailureOf(err)
	return f != nil && f.Cause != api.CausePermission && f.Cause != api.CauseTLS
}

// setStall applies a change, and logs the begin and the end of a stall.
func (b *Bridge) setStall(change func(*stall)) {
	switch before, now := b.stall.update(change); {
	case now && !before:
		log.Warningf("Bridge %s: %s; start it: `systemctl start ovsdb-server`", b.name, stalledAway)
	case before && !now:
		log.Infof("Bridge %s: the switch no longer waits for the local ovsdb-server", b.name)
	}
	if b.stall.reason() == stalledBack {
		time.AfterFunc(maxReturn, func() { b.setStall((*stall).giveUp) })
	}
}

// answerTime is how long a switch may take to answer before it counts as silent.
const answerTime = 2 * time.Second

// askSwitch finds out whether the switch still answers, when the local database has gone away: the
// echo requests of the connection take ten seconds to find a silent switch.
func (b *Bridge) askSwitch() {
	conn := b.conn.Load()
	if conn == nil || !b.asking.CompareAndSwap(false, true) {
		return
	}
	defer b.asking.Store(false)
	answered := make(chan error, 1)
	go func() { answered <- conn.Barrier(b.ctx) }()
	select {
	case <-answered:
		return
	case <-time.After(answerTime):
	}
	// A conn that is still stored has not ended: run clears b.conn before it calls disconnected.
	b.setStall(func(s *stall) { s.silent = s.silent || b.conn.Load() == conn })
	if err := <-answered; err == nil {
		b.setStall(func(s *stall) { s.silent = false })
	}
}
