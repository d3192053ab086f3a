// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// slow answers each query after a delay, however many there are.
type slow struct {
	delay  time.Duration
	answer func(q *dns.Msg) *dns.Msg
	queue  chan delayed // in the order of their times
	ended  chan struct{}
}

type delayed struct {
	at time.Time
	w  dns.ResponseWriter
	m  *dns.Msg
}

// newSlow starts one; end stops it.
func newSlow(delay time.Duration, answer func(q *dns.Msg) *dns.Msg) *slow {
	s := &slow{delay: delay, answer: answer, queue: make(chan delayed, 1<<16), ended: make(chan struct{})}
	go s.run()
	return s
}

// ServeDNS implements dns.Handler.
func (s *slow) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	select {
	case s.queue <- delayed{time.Now().Add(s.delay), w, s.answer(q)}:
	case <-s.ended:
	}
}

// end leaves unanswered what is asked from now on: the queue stays open, since the
// server may still call ServeDNS.
func (s *slow) end() { close(s.ended) }

// run sends the answers. A timer of the runtime may be a millisecond late, a tenth
// of what is measured here; the kernel's are not.
func (s *slow) run() {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // in ns; without it, 50 µs
	for {
		var d delayed
		select {
		case d = <-s.queue:
		case <-s.ended:
			return
		}
		for left := time.Until(d.at); left > 0; left = time.Until(d.at) {
			ts := unix.NsecToTimespec(left.Nanoseconds())
			_ = unix.Nanosleep(&ts, nil) // interrupted, it goes on
		}
		_ = d.w.WriteMsg(d.m)
	}
}
