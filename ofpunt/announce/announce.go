// SPDX-License-Identifier: Apache-2.0

// Package announce decides when a chassis announces the MAC address of the resolver addresses in
// the physical networks of external ports. All chassis answer with one MAC address. Physical
// switches learn the chassis of this address from the frames that it sends, so a chassis that
// begins to serve an external port has to send one.
//
// The package has no clock, no goroutine and no connection. It does not know what a frame is.
//
//	flows in place, databases ──Served──► Schedule.Step ──Localnet──► packet-outs
//	clock ──────────────────────now────►                ──next─────► timer
package announce

import (
	"cmp"
	"slices"
	"time"
)

// Localnet is where frames leave for a physical network.
type Localnet struct {
	// Port is the OpenFlow port, and Tag the VLAN id, 0 for none.
	Port uint32
	Tag  uint16
}

// Served is an external port that this process serves by a localnet port.
type Served struct {
	Localnet
	// MAC is the address of the external port.
	MAC [6]byte
}

// The times are the times of ovn-controller for its own addresses (controller/pinctrl.c, send_garp_rarp).
const (
	// repeats is how many announcements follow the beginning of a service. The first two are
	// firstPause apart, and each further pause is twice as long: 0, 1, 3, 7 and 15 s.
	repeats    = 5
	firstPause = time.Second
)

const (
	// minPause is the least time between two announcements at one localnet port, however often
	// external ports come and go.
	minPause = 200 * time.Millisecond
	// maxBurst is how many announcements are due at once. Further ones follow after
	// burstPause.
	maxBurst   = 64
	burstPause = 50 * time.Millisecond
)

// Schedule has the announcements to come. The zero value serves no external port. It is not safe for
// concurrent use.
type Schedule struct {
	// list is the argument of the last Step, and served has the same entries as a set.
	list   []Served
	served map[Served]struct{}
	// series has the localnet ports with announcements to come, and those whose last announcement
	// was less than minPause before the last change.
	series map[Localnet]*series
	// burst is when the last announcements were due.
	burst time.Time
}

// series are the announcements at one localnet port.
type series struct {
	last  time.Time // of the last announcement, zero before the first
	left  int       // how many are to come
	due   time.Time // of the next one, valid unless left is 0
	pause time.Duration
}

// Step takes all external ports that are served now, in a list that the caller does not change
// afterwards. It returns the localnet ports at which an announcement is due, and when to call it
// again if nothing changes before: zero for never. Time must not go back.
func (s *Schedule) Step(now time.Time, served []Served) (due []Localnet, next time.Time) {
	if !sameList(s.list, served) {
		s.update(now, served)
	}
	resume := s.burst.Add(burstPause)
	for l, one := range s.series {
		if one.left > 0 && !now.Before(one.due) && !now.Before(resume) {
			due = append(due, l)
		}
	}
	slices.SortFunc(due, func(a, b Localnet) int {
		return cmp.Or(s.series[a].due.Compare(s.series[b].due), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Tag, b.Tag))
	})
	due = due[:min(len(due), maxBurst)]
	for _, l := range due {
		s.series[l].announced(now)
		s.burst = now
	}
	for _, one := range s.series {
		if one.left > 0 && (next.IsZero() || one.due.Before(next)) {
			next = one.due
		}
	}
	if resume = s.burst.Add(burstPause); !next.IsZero() && next.Before(resume) {
		next = resume
	}
	return due, next
}

// sameList reports whether two lists are one and the same.
func sameList(a, b []Served) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// update begins a series where an external port is new, and ends the series of localnet ports
// without any.
func (s *Schedule) update(now time.Time, served []Served) {
	if s.series == nil {
		s.series = map[Localnet]*series{}
	}
	before, populated := s.served, map[Localnet]bool{}
	s.list, s.served = served, make(map[Served]struct{}, len(served))
	for _, one := range served {
		s.served[one] = struct{}{}
		populated[one.Localnet] = true
		if _, known := before[one]; !known {
			s.begin(now, one.Localnet)
		}
	}
	for l, one := range s.series {
		if !populated[l] {
			one.left = 0
		}
		if one.left == 0 && now.Sub(one.last) >= minPause {
			delete(s.series, l)
		}
	}
}

// begin begins the series of a localnet port anew.
func (s *Schedule) begin(now time.Time, l Localnet) {
	one := s.series[l]
	if one == nil {
		one = &series{}
		s.series[l] = one
	}
	one.left, one.pause, one.due = repeats, firstPause, now
	if earliest := one.last.Add(minPause); one.due.Before(earliest) {
		one.due = earliest
	}
}

// announced counts an announcement and schedules the next one.
func (one *series) announced(now time.Time) {
	one.last = now
	one.left--
	one.due = now.Add(one.pause)
	one.pause *= 2
}
