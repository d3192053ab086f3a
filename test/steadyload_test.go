// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"slices"
	"strings"
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
	t    *testing.T
	stop chan struct{}
	done sync.WaitGroup

	mu       sync.Mutex
	asked    int                  // mu guards it
	answered int                  // mu guards it
	open     map[uint16]time.Time // when each was asked that has no answer, by id; mu guards it
}

// asksSteadily has a guest ask for db.internal, each query once, and checks what it is told.
func asksSteadily(t *testing.T, g *lab.Guest, want string) *steadyLoad {
	t.Helper()
	conn, err := g.Dial(within(t, wait), "udp", resolver4+":53")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s := &steadyLoad{t: t, stop: make(chan struct{}), open: map[uint16]time.Time{}}
	s.done.Go(func() {
		tick := time.NewTicker(time.Second / loadRate)
		defer tick.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-tick.C:
			}
			m := new(dns.Msg).SetQuestion("db.internal.", dns.TypeA)
			s.mu.Lock()
			s.asked++
			m.Id = uint16(s.asked)
			s.open[m.Id] = time.Now()
			s.mu.Unlock()
			b, err := m.Pack()
			if err == nil {
				_, err = conn.Write(b)
			}
			if err != nil {
				t.Errorf("asking: %v", err)
				return
			}
		}
	})
	go func() {
		for b := make([]byte, 1<<16); ; {
			n, err := conn.Read(b)
			if err != nil {
				return // the end of the test
			}
			m := new(dns.Msg)
			if err := m.Unpack(b[:n]); err != nil || withTTL(m) != want && inShort(m) != want {
				t.Errorf("an answer: %v, %v, want %s", m, err, want)
				continue
			}
			s.mu.Lock()
			s.answered++
			delete(s.open, m.Id)
			s.mu.Unlock()
		}
	}()
	return s
}

// more waits until that many queries more are answered.
func (s *steadyLoad) more(l *lab.Lab, n int) {
	s.t.Helper()
	s.mu.Lock()
	want := s.answered + n
	s.mu.Unlock()
	l.Eventually(fmt.Sprintf("%d answers", n), func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.answered < want {
			return fmt.Errorf("%d answers of %d queries", s.answered, s.asked)
		}
		return nil
	})
}

// end stops the guest, and checks that each query has had its answer.
func (s *steadyLoad) end(l *lab.Lab) {
	s.t.Helper()
	close(s.stop)
	s.done.Wait()
	l.Eventually("no query without an answer", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.open) > 0 {
			var lost []string
			for _, at := range s.open {
				lost = append(lost, at.Format("15:04:05.000"))
			}
			slices.Sort(lost)
			return fmt.Errorf("%d of %d queries have none: asked at %s", len(lost), s.asked, strings.Join(lost, ", "))
		}
		return nil
	})
	s.t.Logf("%d queries", s.asked)
}
