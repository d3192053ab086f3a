// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// lease decides whether the punt may go on. Each beat it sends a probe through
// the switch; the punt is renewed when the probe has come back through the
// reader of the connection and a worker. A process that is dead, stopped or
// stuck renews nothing, and the switch lets its guests' queries go their own way.
type lease struct {
	// every is the time between two beats.
	every time.Duration

	// token is that of the probe on its way, 0 for none.
	token atomic.Uint64
	sent  time.Time
	// back has a mark when the probe has come back.
	back chan struct{}
	// sound is unset while a probe is overdue.
	sound bool
}

func newLease(lifetime time.Duration) *lease {
	return &lease{every: leaseBeat(lifetime), back: make(chan struct{}, 1), sound: true}
}

// leaseBeat is the time between two beats for a punt of that lifetime; one that
// lasts for good (0) is probed as often as the default.
func leaseBeat(lifetime time.Duration) time.Duration {
	if lifetime == 0 {
		lifetime = defaultLease
	}
	return lifetime / 3
}

// returned takes a probe that came back, on any goroutine.
func (l *lease) returned(token uint64) {
	if token != 0 && l.token.CompareAndSwap(token, 0) {
		poke(l.back)
	}
}

// probe sends a probe off and reports whether the one before had come back.
func (l *lease) probe(conn *openflow.Conn, now time.Time) (sound bool, err error) {
	sound = l.token.Load() == 0
	token := rand.Uint64() | 1
	l.token.Store(token)
	l.sent = now
	b, err := openflow.AppendActions(nil, conn.Version(), openflow.Resubmit{Table: placement.PrivateTable})
	if err != nil {
		return sound, err
	}
	data := frame.AppendProbe(nil, token)
	msg, err := openflow.AppendPacketOut(nil, conn.Version(), conn.NextXID(), openflow.PortController, b, data)
	if err != nil {
		return sound, err
	}
	return sound, conn.Write(msg)
}

// forget gives up a probe that had no flow to come back by.
func (l *lease) forget() {
	l.token.Store(0)
	l.sound = true
}

// renew restarts the hard timeout of the punt: a strict modify does that and
// leaves the flow's counters alone.
func renew(conn *openflow.Conn, punt openflow.FlowMod) error {
	// Only our own: a process that came later has another cookie.
	punt.Command, punt.CookieMask = openflow.ModifyStrict, ^uint64(0)
	msg, err := openflow.AppendFlowMod(nil, conn.Version(), conn.NextXID(), &punt)
	if err != nil {
		return err
	}
	return conn.Write(msg)
}
