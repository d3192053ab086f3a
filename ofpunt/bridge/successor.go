// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync/atomic"
	"time"
)

// The switch caches the result of its flows in the datapath, and the cache names the process that a packet
// goes to. The switch updates the cache after each change of a flow ("revalidation" in ovs-vswitchd(8)): in
// some milliseconds, or in up to two seconds if Open vSwitch begins to limit the number of datapath flows.
// Until then packets go to the process that had the flows before. Without its connection their queries would
// be lost.
const (
	// revalidation is how long a process counts on packets after another one has taken over.
	revalidation = 2 * time.Second
	// quiet is how long it has had none when it ends, lingerTimeout how long it waits for that.
	quiet, lingerTimeout = 500 * time.Millisecond, 8 * time.Second
	// lingerStep is how often it looks.
	lingerStep = 20 * time.Millisecond
)

// successor is another process that has taken over the flows of a bridge. It is safe for concurrent use. The
// zero value is no process.
type successor struct {
	since atomic.Pointer[time.Time] // nil for none
}

// seen records that another process has taken the flows over.
func (s *successor) seen(now time.Time) { s.since.CompareAndSwap(nil, &now) }

// gone records that no other process has the flows any more.
func (s *successor) gone() { s.since.Store(nil) }

// linger says how long a process that is to end stays connected, for packets that the switch punts
// to it still.
type linger struct {
	// takenOver is when another process was seen to have the flows, and arrived when the last
	// packet came, or may have.
	takenOver, arrived time.Time
}

// over reports whether the process can end now.
func (l *linger) over(now time.Time) bool {
	return now.Sub(l.takenOver) >= revalidation && now.Sub(l.arrived) >= quiet
}

// await waits until the process can end, and returns how many packets have come meanwhile: arrived
// counts them. It reports whether that was before lingerTimeout.
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

// awaitDatapath waits until the switch punts nothing to this process any more, where another
// one has taken over. Meanwhile queries are answered.
func (b *Bridge) awaitDatapath() {
	since := b.successor.since.Load()
	if since == nil || b.conn.Load() == nil {
		return
	}
	// The time of the last packet is not known, so the process waits as if one had come now.
	l := linger{takenOver: *since, arrived: time.Now()}
	log.Infof("Bridge %s: another process has the flows, waiting until the switch punts nothing to this one", b.name)
	late, quiet := l.await(b.punts.Arrived)
	if !quiet {
		log.Warningf("Bridge %s: after %s the switch punts to this process still, which ends: the queries among these packets are lost", b.name, lingerTimeout)
	}
	log.Infof("Bridge %s: %d packets were punted to this process meanwhile", b.name, late)
}
