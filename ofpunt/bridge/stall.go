// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync"
	"time"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
)

// stall decides whether the switch is silent because the local ovsdb-server is away. Without ovsdb-server an
// ovs-vswitchd loses its lock there: it then reads no message, sends no packet-in and expires no flow (bridge_run in
// vswitchd/bridge.c), so the lease can't end the punt. stall is safe for concurrent use. The zero value is no stall.
type stall struct {
	mu sync.Mutex
	// away is set while the local ovsdb-server is away, silent while the switch does not answer. mu guards both, and
	// stalled.
	away, silent bool
	// stalled lasts until the switch answers, or for maxReturn after ovsdb-server is back: ovs-vswitchd reconnects
	// within 8 s.
	stalled bool
}

const maxReturn = 15 * time.Second

// giveUp ends a stall whose ovsdb-server is back: the switch is silent for another reason.
func (s *stall) giveUp() { s.stalled = s.stalled && s.away }

const (
	stalledAway = "the local ovsdb-server does not answer, and ovs-vswitchd does nothing without it: queries that are punted are lost until ovsdb-server is back, and the lease can't end the punt"
	stalledBack = "the local ovsdb-server is back, and ovs-vswitchd has not connected to it yet, which takes 8 s at most: queries that are punted are lost until then"
)

// update reports whether there was a stall before the change, and is one now.
func (s *stall) update(change func(*stall)) (before, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
	before = s.stalled
	s.stalled = s.silent && (s.away || s.stalled)
	return before, s.stalled
}

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

// isAway reports whether ovs-vswitchd too may lack ovsdb-server. Errors of permission and TLS concern puntdns alone.
func isAway(err error) bool {
	f := control.FailureOf(err)
	return f != nil && f.Cause != api.CausePermission && f.Cause != api.CauseTLS
}

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

// answerTime is how long a switch may take to answer.
const answerTime = 2 * time.Second

// askSwitch finds a silent switch after the local database went away. Echo requests take ten seconds.
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
	// A stored conn has not ended: connect clears b.conn before run calls disconnected.
	b.setStall(func(s *stall) { s.silent = s.silent || b.conn.Load() == conn })
	if err := <-answered; err == nil {
		b.setStall(func(s *stall) { s.silent = false })
	}
}
