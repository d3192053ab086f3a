// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/puntdns/puntdns/ofpunt/punttest"
)

func TestStall(t *testing.T) {
	away := func(err error) func(*stall) { return func(s *stall) { s.away = isAway(err) } }
	var (
		lost      = away(errors.New("connection lost"))
		forbidden = away(fs.ErrPermission)
		back      = away(nil)
		silent    = func(s *stall) { s.silent = true }
		answers   = func(s *stall) { s.silent = false }
	)
	for _, tt := range []struct {
		name   string
		events []func(*stall)
		reason string
	}{
		{"nothing has happened", nil, ""},
		{"the database is away, and the switch answers", []func(*stall){lost}, ""},
		{"the switch is silent alone", []func(*stall){silent}, ""},
		{"both are silent", []func(*stall){lost, silent}, stalledAway},
		{"both are silent, the switch first", []func(*stall){silent, lost}, stalledAway},
		{"only this process may not open the database", []func(*stall){forbidden, silent}, ""},
		{"the database is back, and the switch does not know it yet", []func(*stall){lost, silent, back}, stalledBack},
		{"the database goes again meanwhile", []func(*stall){lost, silent, back, lost}, stalledAway},
		{"the switch answers, and the database is read later", []func(*stall){lost, silent, answers}, ""},
		{"all is back", []func(*stall){lost, silent, back, answers}, ""},
		{"the database is back, and the switch stays silent", []func(*stall){lost, silent, back, (*stall).giveUp}, ""},
		{"the database goes again before that", []func(*stall){lost, silent, back, lost, (*stall).giveUp}, stalledAway},
		{"the switch hangs later for another reason", []func(*stall){lost, silent, back, answers, silent}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s stall
			begun := 0
			for _, e := range tt.events {
				if before, now := s.update(e); now && !before {
					begun++
				}
			}
			if got := s.reason(); got != tt.reason {
				t.Errorf("%q, want %q", got, tt.reason)
			}
			if begun > 1 {
				t.Errorf("the stall has begun %d times", begun)
			}
		})
	}
}

// While the local database is away, a switch counts as silent long before its connection ends.
func TestAskSwitch(t *testing.T) {
	s, peer := pairSession(t, func() {})
	b := s.bridge
	b.ctx = t.Context()
	b.setStall(func(s *stall) { s.away = true })
	asked := make(chan struct{})
	go func() { b.askSwitch(); close(asked) }()
	buf := make([]byte, 1<<16)
	n, err := peer.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	for b.stall.reason() == "" {
		select {
		case <-asked:
			t.Fatal("it does not wait for the switch")
		case <-time.After(time.Millisecond):
		}
	}
	punttest.Each(buf[:n], func(typ uint8, xid uint32) { _, err = peer.Write(punttest.Message(typ+1, xid, nil)) })
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	if reason := b.stall.reason(); reason != "" {
		t.Errorf("after the answer: %s", reason)
	}
}
