// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"context"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

func TestSameQuestion(t *testing.T) {
	const a, https = "\x01a\x00\x00\x01\x00\x01", "\x01a\x00\x00\x41\x00\x01"
	tests := []struct {
		name, a, b string
		want       bool
	}{
		{"the same", counting(1, 0, 0, 0, a), counting(1, 0, 0, 0, a), true},
		{"another ID", counting(1, 0, 0, 0, a), "\xff\xff" + counting(1, 0, 0, 0, a)[2:], true},
		{"with EDNS and without", counting(1, 0, 0, 1, a, recordOPT), counting(1, 0, 0, 0, a), true},
		{"other case", counting(1, 0, 0, 0, a), counting(1, 0, 0, 0, "\x01A\x00\x00\x01\x00\x01"), true},
		{"another name", counting(1, 0, 0, 0, a), counting(1, 0, 0, 0, "\x01b\x00\x00\x01\x00\x01"), false},
		{"a longer name", counting(1, 0, 0, 0, a), counting(1, 0, 0, 0, "\x01a\x01a\x00\x00\x01\x00\x01"), false},
		{"another type", counting(1, 0, 0, 0, a), counting(1, 0, 0, 0, https), false},
		{"types that differ as letters do", counting(1, 0, 0, 0, https), counting(1, 0, 0, 0, "\x01a\x00\x00\x61\x00\x01"), false},
		{"another class", counting(1, 0, 0, 0, a), counting(1, 0, 0, 0, "\x01a\x00\x00\x01\x00\x03"), false},
		{"bytes that are no letters", counting(1, 0, 0, 0, "\x01[\x00\x00\x01\x00\x01"), counting(1, 0, 0, 0, "\x01{\x00\x00\x01\x00\x01"), false},
		{"no plain question", counting(1, 0, 0, 0, "\x01a\xc0\x04\x00\x01\x00\x01"), counting(1, 0, 0, 0, "\x01a\xc0\x04\x00\x01\x00\x01"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := sameQuestion([]byte(tt.a), []byte(tt.b)); got != tt.want {
				t.Errorf("got %v", got)
			}
			if got := sameQuestion([]byte(tt.b), []byte(tt.a)); got != tt.want {
				t.Errorf("turned round: got %v", got)
			}
		})
	}
}

// Of the queries in flight only those count that a chain has, and has not answered.
func TestSameInFlight(t *testing.T) {
	c, _ := newChannel(t)
	srv := serve(c.intake, nil, nil)
	add := func(id uint16, guest uint32, question string) *Exchange {
		q := asked(t, c, id)
		q.from.account = accountAt(1, guest)
		q.payload = []byte(counting(1, 0, 0, 0, question))
		if reason := srv.admission.admit(q, 64); reason != "" {
			t.Fatal(reason)
		}
		return q
	}
	q := add(1, 7, questionA)
	check := func(of, anyone int) {
		t.Helper()
		if got := q.repeatsOfGuest(); got != of {
			t.Errorf("%d of the guest, want %d", got, of)
		}
		if got := q.repeats(); got != anyone {
			t.Errorf("%d of all, want %d", got, anyone)
		}
	}
	check(0, 0)
	add(2, 7, "\x01b\x00\x00\x01\x00\x01")
	check(0, 0)
	own := add(3, 7, questionA)
	check(1, 1)
	add(4, 8, questionA)
	check(1, 2)
	add(5, 8, questionA).ready.Store(false)
	check(1, 2)
	own.done.Store(true)
	check(0, 1)
}

// A guest that is asked may ask for itself, and twice.
func TestIsPassedOn(t *testing.T) {
	tests := []struct {
		name     string
		own, all int
		want     bool
	}{
		{"nobody else asks", 0, 0, false},
		{"another guest asks", 0, 1, true},
		{"the guest asks again", 2, 2, false},
		{"both", 2, 3, true},
		{"the guest asks itself without end", MaxRepeats, MaxRepeats, true},
	}
	for _, tt := range tests {
		if got := isPassedOn(tt.own, tt.all); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// A guest that repeats its question too often is in a loop, whoever is asked.
func TestIsRepeated(t *testing.T) {
	c, _ := newChannel(t)
	srv := serve(c.intake, nil, nil)
	var last *Exchange
	for i := range MaxRepeats + 1 {
		last = asked(t, c, uint16(i))
		last.from.account, last.payload = accountAt(1, 7), []byte(counting(1, 0, 0, 0, questionA))
		if reason := srv.admission.admit(last, 64); reason != "" {
			t.Fatal(reason)
		}
		if want := i == MaxRepeats; last.IsRepeated() != want {
			t.Errorf("%d others: %v, want %v", i, !want, want)
		}
	}
	other := asked(t, c, 100)
	other.from.account, other.payload = accountAt(1, 8), last.payload
	if reason := srv.admission.admit(other, 64); reason != "" || other.IsRepeated() {
		t.Errorf("%q, or another guest's question is a loop", reason)
	}
}

// What an operator asks in the place of a guest is seen by those who look for loops while it is in
// the chains, and the operator is told of a loop; though it counts towards no limit.
func TestExplainedIsInFlight(t *testing.T) {
	c, _ := newChannel(t)
	guestIs(c.intake, "1")
	var own, all int
	var counted int64
	var srv *Server
	srv = serve(c.intake, func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) {
		server := asked(t, c, 9) // the server that a chain asks, which passes the question on
		server.from.account, server.from.origin = accountAt(1, 77), origin.Origin{Port: "server"}
		server.payload, _ = r.Pack()
		server.server = srv
		if reason := srv.admission.admit(server, 64); reason != "" {
			t.Error(reason)
		}
		own, all, counted = server.repeatsOfGuest(), server.repeats(), srv.InFlight()
		server.SetLooped()
		other := asked(t, c, 10)
		other.payload, other.server = []byte(counting(1, 0, 0, 0, "\x01b\x00\x00\x01\x00\x01")), srv
		other.SetLooped() // of another question
		srv.admission.release(server)
		_ = w.WriteMsg(new(dns.Msg).SetReply(r))
	}, nil)
	var looped []string
	v := c.intake.Ask(srv, &TestQuery{
		In: openflow.PacketIn{InPort: 5, Data: punttest.QueryFrame()}, Context: context.Background(), Answered: func() {},
		Looped: func(by *origin.Origin) { looped = append(looped, by.Port) },
	})
	<-v.Done
	if own != 0 || all != 1 || counted != 1 || !isPassedOn(own, all) {
		t.Errorf("%d of the server, %d of all, %d in flight; want 0, 1 and the server's own", own, all, counted)
	}
	if len(looped) != 1 || looped[0] != "server" {
		t.Errorf("told of loops by %q, want the server once", looped)
	}
	if srv.admission.explained.Load() != nil {
		t.Error("it is in flight for good")
	}
}
