// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// loadRate is how many queries steadyLoad asks a second at most.
const loadRate = 500

// steadyLoad is a guest that asks by one socket, and waits for no answer before it asks again.
type steadyLoad struct {
	*questioner
	t    *testing.T
	stop chan struct{}
	done sync.WaitGroup
}

// asksSteadily has a guest ask for db.internal, each query once, and checks its answers.
func asksSteadily(t *testing.T, g *lab.Guest, want string) *steadyLoad {
	t.Helper()
	s := &steadyLoad{questioner: questions(t, g, resolver4), t: t, stop: make(chan struct{})}
	s.done.Go(func() {
		tick := time.NewTicker(time.Second / loadRate)
		defer tick.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-tick.C:
			}
			if err := s.ask("db.internal.", dns.TypeA, want); err != nil {
				t.Errorf("asking: %v", err)
				return
			}
		}
	})
	return s
}

// more waits until that many queries more are answered.
func (s *steadyLoad) more(l *lab.Lab, n int) {
	s.t.Helper()
	want := s.answered() + n
	l.Eventually(fmt.Sprintf("%d answers", n), func() error {
		return errorUnless(s.answered() >= want, "%d answers, want %d", s.answered(), want)
	})
}

// end stops the guest, and checks that each query has had its answer.
func (s *steadyLoad) end() {
	s.t.Helper()
	close(s.stop)
	s.done.Wait()
	found := s.finish(wait)
	found.clean(s.t, "the guest")
	s.t.Log(found)
}
