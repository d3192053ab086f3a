// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
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

// asksSteadily has a guest ask for db.internal, each query once.
func asksSteadily(t *testing.T, g *lab.Guest) *steadyLoad {
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
			if err := m.Unpack(b[:n]); err != nil || inShort(m) != "NOERROR 10.0.0.21" {
				t.Errorf("an answer: %v, %v", m, err)
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

// One process after the other takes over and the one before ends at once, under load. Each query
// is answered, though each is asked once.
func TestHandOverUnderLoad(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	s := launch(t, n.l, n.l.Node, "p0", n.corefile("", "", 9153, 8181))
	s.ready(200)
	load := asksSteadily(t, n.vm)
	for i := range 3 {
		load.more(n.l, 50)
		next := launch(t, n.l, n.l.Node, fmt.Sprintf("p%d", i+1), n.corefile("", "", 9154+i, 8182+i))
		next.metricsAt = fmt.Sprintf("127.0.0.1:%d", 9154+i)
		next.log("flows are in place")
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		s = next
	}
	load.more(n.l, 50)
	load.end(n.l)
}

// The switch may go on punting to the process before the one that has the flows: its datapath is
// brought up to date some time after a change of the flows. That process answers meanwhile, also
// when it is to end.
func TestHandOverBeforeRevalidation(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	first := launch(t, n.l, n.l.Node, "first", n.corefile("", "", 9153, 8181))
	first.ready(200)
	load := asksSteadily(t, n.vm)
	load.more(n.l, 50)

	n.l.Node.AppCtl("ovs-vswitchd", "revalidator/pause")
	second := launch(t, n.l, n.l.Node, "second", n.corefile("", "", 9154, 8182))
	second.metricsAt = "127.0.0.1:9154"
	second.log("flows are in place")
	if err := first.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	first.log("another process has the flows, waiting until the switch punts nothing to this one")
	load.more(n.l, 50)
	select {
	case <-first.Done():
		t.Error("the first has ended, and the switch punts to it")
	default:
	}
	n.l.Node.AppCtl("ovs-vswitchd", "revalidator/resume")
	if err := first.Wait(within(t, wait)); err != nil {
		t.Error(err)
	}
	first.log("[1-9][0-9]+ packets were punted to this process meanwhile")
	load.more(n.l, 50)
	load.end(n.l)
}
