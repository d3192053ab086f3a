// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync/atomic"
	"time"
)

// The switch's datapath caches which process gets a packet. The switch updates the cache some milliseconds after a
// change of flows ("revalidation" in ovs-vswitchd(8)), or up to two seconds when Open vSwitch begins to limit its
// datapath flows. Until then packets go to the previous process, which has to stay connected to answer them.
const (
	// revalidation is how long packets are expected after a takeover.
	revalidation = 2 * time.Second
	// The process ends after quiet without a packet, or after lingerTimeout.
	quiet, lingerTimeout = 500 * time.Millisecond, 8 * time.Second
	lingerStep           = 20 * time.Millisecond
)

// successor is another process that has the bridge's flows. It is safe for concurrent use. Zero is no process.
type successor struct {
	since atomic.Pointer[time.Time] // nil for none
}

func (s *successor) seen(now time.Time) { s.since.CompareAndSwap(nil, &now) }

func (s *successor) gone() { s.since.Store(nil) }

// linger decides how long an ending process stays connected for late packets.
type linger struct {
	// arrived is when the last packet came, or may have.
	takenOver, arrived time.Time
}

func (l *linger) over(now time.Time) bool {
	return now.Sub(l.takenOver) >= revalidation && now.Sub(l.arrived) >= quiet
}

// await returns the number of late packets. quiet is false after lingerTimeout.
func (l linger) await(arrived func() uint64) (late uint64, quiet bool) {
	t := time.NewTicker(lingerStep)
	defer t.Stop()
	timeout := time.After(lingerTimeout)
	before := arrived()
	for last := before; !l.over(time.Now()); {
		select {
		case <-timeout:
			return last - before, false
		case now := <-t.C:
			if n := arrived(); n != last {
				l.arrived, last = now, n
			}
			late = last - before
		}
	}
	return late, true
}

// awaitDatapath waits for late packets if another process has the flows. Their queries are answered.
func (b *Bridge) awaitDatapath() {
	since := b.successor.since.Load()
	if since == nil || b.conn.Load() == nil {
		return
	}
	// The last packet's time is unknown, so assume now.
	l := linger{takenOver: *since, arrived: time.Now()}
	log.Infof("Bridge %s: another process has the flows, waiting until the switch punts nothing to this one", b.name)
	late, quiet := l.await(b.punts.Arrived)
	if !quiet {
		log.Warningf("Bridge %s: after %s the switch punts to this process still, which ends: the queries among these packets are lost", b.name, lingerTimeout)
	}
	log.Infof("Bridge %s: %d packets were punted to this process meanwhile", b.name, late)
}
