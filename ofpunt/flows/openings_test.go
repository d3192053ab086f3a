// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// opener is a process with its flows in place. Guests 1 and 2 may resolve x., y. and the given names.
type opener struct {
	process
	want   Want
	ended  map[uint64]error
	stands map[placement.Opening]standing
}

func newOpener(names ...string) *opener {
	policy := &namesAllowed{append([]string{"x.", "y."}, names...)}
	o := &opener{
		process: process{name: "a", random: rand.New(rand.NewPCG(1, 1))},
		ended:   map[uint64]error{}, stands: map[placement.Opening]standing{},
		want: Want{
			Settled: true, Kind: placement.OVN, Heartbeat: 5 * time.Second, MaxOpenings: 100, MaxNetworkOpenings: maxOpenings, OpeningGrace: time.Minute,
			Stage:   Stage{TableID: 22, Cookies: []uint32{0xaa}, StatefulID: 6},
			Service: placement.Service{EgressBit: 31, Lease: 15},
			Guests:  []Guest{{Guest: placement.Guest{Key: guestKey(1), Egress: policy}}, {Guest: placement.Guest{Key: guestKey(2), Egress: policy}}},
		},
	}
	o.did = func(c command) {
		switch c := c.(type) {
		case opened:
			o.ended[c.token] = c.err
		case standing:
			if o.stands[c.of] = c; c.until.IsZero() {
				delete(o.stands, c.of)
			}
		}
	}
	sw := newFakeSwitch(epoch.Add(time.Hour))
	sw.change(nil, openflow.FlowMod{Table: 30, Cookie: 0xaa, Match: openflow.NewMatch(openflow.Metadata(5))})
	o.connect(sw)
	o.step(Desired{&o.want})
	o.rest()
	return o
}

func destination(i int) opening.Destination {
	return opening.Destination{Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})}
}

func (o *opener) ask(token uint64, name string, lasts time.Duration, to int) {
	o.step(open{[]openRequest{{token, guestKey(1), opening.Answer{Name: name, To: []opening.Destination{destination(to)}, Lasts: lasts}}}})
}

func (o *opener) refuse(t *testing.T) {
	t.Helper()
	if _, is := o.request.(apply); !is {
		t.Fatalf("%T is outstanding", o.request)
	}
	o.request = nil
	o.step(reply{Err: noSuchTable})
}

// If the switch refuses a change, existing openings remain, and the machine repeats removals.
func TestOpeningsRefused(t *testing.T) {
	at := func(i int) placement.Opening { return placement.Opening{Guest: guestKey(1), To: destination(i)} }
	t.Run("new", func(t *testing.T) {
		o := newOpener()
		o.ask(1, "x.", time.Minute, 1)
		o.refuse(t)
		if !errors.Is(o.ended[1], noSuchTable) || len(o.machine.openings.all) > 0 || len(o.stands) > 0 {
			t.Error(o.ended, o.machine.openings.all, o.stands)
		}
	})
	t.Run("for longer", func(t *testing.T) {
		o := newOpener()
		o.ask(1, "x.", time.Minute, 1)
		o.rest()
		before := o.stands[at(1)].until
		o.ask(2, "x.", time.Hour, 1)
		o.refuse(t)
		if got := o.stands[at(1)].until; !errors.Is(o.ended[2], noSuchTable) || !got.Equal(before) || !o.machine.openings.all[at(1)].wanted {
			t.Errorf("%v: stands until %v, want %v", o.ended, got, before)
		}
		o.ask(3, "x.", time.Hour, 1)
		o.rest()
		if got := o.stands[at(1)].until; o.ended[3] != nil || !got.After(before) {
			t.Errorf("%v: stands until %v", o.ended, got)
		}
	})
	t.Run("with a removal", func(t *testing.T) {
		o := newOpener()
		o.ask(1, "x.", time.Minute, 1)
		o.rest()
		o.want.Guests = []Guest{{Guest: placement.Guest{Key: guestKey(1), Egress: &namesAllowed{[]string{"y."}}}}}
		o.step(Desired{&o.want}) // the flows of guest 2 are removed first
		o.ask(2, "y.", time.Minute, 2)
		for o.machine.openings.writing == nil && (o.hear() || o.serve()) {
		}
		o.refuse(t)
		if _, stands := o.stands[at(1)]; stands || !errors.Is(o.ended[2], noSuchTable) {
			t.Error(o.ended, o.stands)
		}
		o.rest()
		if len(o.machine.openings.all) > 0 || o.failed != nil {
			t.Error(o.machine.openings.all, o.failed)
		}
	})
}

// OpenFlow 1.3 does not report the last packet. The opening counts as unused.
func TestOpeningsWithoutIdle(t *testing.T) {
	o := newOpener()
	of := placement.Opening{Guest: guestKey(1), To: destination(1)}
	f := o.want.Service.Flow(&of, []string{"x."}, 60)
	o.machine.readOpenings([]openflow.FlowStats{{
		Table: f.Table, Priority: f.Priority, Match: f.Match, IdleTimeout: 60, Idle: -1, Duration: 40 * time.Second, Instructions: instructionsOf(&f),
	}})
	if got := o.machine.openings.all[of].until().Sub(o.sw.now); got > 20*time.Second {
		t.Error(got)
	}
}

// An opening that was closed loses its names.
func TestOpeningClosedAndWanted(t *testing.T) {
	o := newOpener()
	o.ask(1, "x.", time.Minute, 1)
	o.rest()
	e := o.machine.openings.all[placement.Opening{Guest: guestKey(1), To: destination(1)}]
	o.machine.judgeOne(e, &namesAllowed{[]string{"y."}})
	if e.wanted || len(e.names) > 0 {
		t.Errorf("%+v", e)
	}
}

// Another bit of pkt_mark rewrites openings; their time continues.
func TestOpeningsOfAnotherBit(t *testing.T) {
	o := newOpener()
	o.ask(1, "x.", time.Minute, 1)
	o.rest()
	e := o.machine.openings.all[placement.Opening{Guest: guestKey(1), To: destination(1)}]
	f := o.want.Service.Flow(&e.Opening, e.names, 120)
	o.want.Service.EgressBit = 20
	want := o.want
	o.step(Desired{&want})
	o.rest()
	got := o.sw.flows[keyOf(&f)].mod
	if want := want.Service.Flow(&e.Opening, e.names, 120); !reflect.DeepEqual(got.Actions, want.Actions) || got.IdleTimeout != want.IdleTimeout {
		t.Errorf("%v, want %v", got, want)
	}
}

// Guests choose the names, so they are bounded.
func TestOpeningNames(t *testing.T) {
	long := strings.Repeat(`\000`, 200) + "."
	o := newOpener(long, "l"+long, "ll"+long)
	for i, name := range []string{long, "l" + long, "ll" + long, "x."} {
		o.ask(uint64(i+1), name, time.Minute, 1)
		o.rest()
	}
	e := o.machine.openings.all[placement.Opening{Guest: guestKey(1), To: destination(1)}]
	if len(e.names) != 2 || len(o.ended) != 4 {
		t.Errorf("%d names, ended %v", len(e.names), o.ended)
	}
	if s := o.stands[e.Opening]; !s.serves("x.", o.sw.now) {
		t.Error("a further name opens it, and it has to be opened again")
	}
}

func TestRequestsBounded(t *testing.T) {
	o := newOpener()
	o.want.Unready = "no bridge"
	o.step(Desired{&o.want})
	for i := range maxRequests + 1 {
		o.ask(uint64(i+1), "x.", time.Minute, 1)
	}
	if len(o.ended) != 1 || o.ended[maxRequests+1] == nil {
		t.Errorf("%d have ended", len(o.ended))
	}
}

// A full bridge opens nothing more for any guest, and closes nothing.
func TestBridgeFull(t *testing.T) {
	o := newOpener()
	o.ask(1, "x.", time.Minute, 1)
	o.rest()
	for i := range maxOpenings - 1 {
		to := opening.Destination{Address: netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})}
		o.machine.openings.add(placement.Opening{Guest: placement.Key{Datapath: 6, Port: uint32(i / 1000)}, To: to}).wanted = true
	}
	o.ask(2, "x.", time.Minute, 2)
	o.rest()
	if n := len(o.machine.openings.all); !errors.Is(o.ended[2], opening.ErrFull) || n != maxOpenings || len(o.stands) != 1 {
		t.Errorf("%v, %d openings, %d stand", o.ended[2], n, len(o.stands))
	}
	o.ask(3, "x.", time.Minute, 1)
	o.rest()
	if err := o.ended[3]; err != nil {
		t.Errorf("what is open: %v", err)
	}
}

// Without a MAC, the match of a guest covers others' flows. Room is made only among the guest's own.
func TestRoomOfAnotherGuest(t *testing.T) {
	o := newOpener()
	other := guestKey(1)
	other.MAC = [6]byte{2, 0, 0, 0, 0, 1}
	m := o.machine
	e := m.openings.add(placement.Opening{Guest: other, To: destination(1)})
	e.wanted, e.installed = true, true
	f := o.want.Service.Flow(&e.Opening, []string{"x."}, 60)
	m.want.MaxOpenings = 0
	m.openings.crowded = []openRequest{{1, guestKey(1), opening.Answer{Name: "x.", To: []opening.Destination{destination(2)}}}}
	m.looked(guestKey(1), []openflow.FlowStats{{Table: f.Table, Priority: f.Priority, Match: f.Match, Idle: time.Hour}})
	if !e.wanted || len(m.openings.lookedAt) > 0 {
		t.Errorf("%+v, %v", e, m.openings.lookedAt)
	}
}

// An opening makes no room for a minute after an answer that needed no change.
func TestRoomOfAnswered(t *testing.T) {
	for _, tt := range []struct {
		since time.Duration
		kept  bool
	}{{leastIdle - time.Second, true}, {leastIdle, false}} {
		o := newOpener()
		o.want.MaxOpenings = 1
		o.ask(1, "x.", time.Hour, 1)
		o.rest()
		o.sw.pass(10 * time.Minute)
		of := placement.Opening{Guest: guestKey(1), To: destination(1)}
		o.stands[of].answered.Store(answerTime(o.sw.now))
		o.sw.pass(tt.since)
		o.ask(2, "x.", time.Hour, 2)
		o.rest()
		if _, stands := o.stands[of]; stands != tt.kept || errors.Is(o.ended[2], opening.ErrFull) != tt.kept {
			t.Errorf("%s after its answer: stands %v, %v", tt.since, stands, o.ended[2])
		}
	}
}

// An opening that an answer waits for makes no room.
func TestRoomOfWaiting(t *testing.T) {
	o := newOpener()
	o.ask(1, "x.", time.Minute, 1)
	o.rest()
	m := o.machine
	e := m.openings.all[placement.Opening{Guest: guestKey(1), To: destination(1)}]
	e.requests = []uint64{2}
	m.want.MaxOpenings = 1
	m.openings.crowded = []openRequest{{3, guestKey(1), opening.Answer{Name: "x.", To: []opening.Destination{destination(2)}}}}
	f := o.want.Service.Flow(&e.Opening, []string{"x."}, 60)
	m.looked(guestKey(1), []openflow.FlowStats{{Table: f.Table, Priority: f.Priority, Match: f.Match, Idle: time.Hour}})
	if !e.wanted {
		t.Errorf("%+v", e)
	}
}

// Openings that lapse together cost one read at once and one a second later, for any number of guests.
func TestLapsesTogether(t *testing.T) {
	const guests, pairs = 50, 100
	o := newOpener()
	policy := o.want.Guests[0].Egress
	o.want.Guests, o.want.MaxOpenings, o.want.Service.Lease = nil, 2*pairs, 0
	for g := range guests {
		o.want.Guests = append(o.want.Guests, Guest{Guest: placement.Guest{Key: guestKey(g + 1), Egress: policy}})
	}
	want := o.want
	o.step(Desired{&want})
	var requests []openRequest
	to := func(i int) opening.Destination {
		return opening.Destination{Address: netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)})}
	}
	for g := range guests {
		for i := range pairs {
			a := opening.Answer{Name: []string{"x.", "y."}[i%2], To: []opening.Destination{to(2 * i), to(2*i + 1)}, Lasts: time.Minute}
			requests = append(requests, openRequest{uint64(len(requests) + 1), guestKey(g + 1), a})
		}
	}
	o.step(open{requests})
	o.rest()
	if n := len(o.stands); n != guests*pairs*2 {
		t.Fatalf("%d openings", n)
	}
	o.sw.pass(100 * time.Second)
	for g := range guests {
		o.sw.packet(guestKey(g+1), to(0).Address) // of x.
	}
	reads, did := 0, o.did
	o.did = func(c command) {
		if _, is := c.(readFlows); is {
			reads++
		}
		did(c)
	}
	o.sw.pass(21 * time.Second)
	o.rest()
	if reads != 1 || !o.retry {
		t.Errorf("%d reads at once", reads)
	}
	visits := 0
	kept, gone := o.machine.openings.siblings(guestKey(guests), func(*openingState) bool {
		visits++
		return true
	})
	if visits != 1 || len(kept) != pairs-1 || len(gone) != pairs {
		t.Errorf("%d visits, %d kept, %d gone", visits, len(kept), len(gone))
	}
	o.sw.pass(looksEvery)
	o.step(retry{})
	o.rest()
	if n := len(o.stands); reads != 2 || n != guests*pairs || len(o.machine.openings.all) != n {
		t.Errorf("%d reads, %d openings of %d stand", reads, n, len(o.machine.openings.all))
	}
}

// An opening stands for its names, its guest and its time.
func TestStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, to := NewReconciler(nil, new(Memory), nil), destination(1)
		var answered atomic.Int64
		rec.requests.record(&standing{placement.Opening{Guest: guestKey(1), To: to}, []string{"x."}, time.Now().Add(time.Minute), &answered})
		for _, tt := range []struct {
			what  string
			guest int
			of    opening.Answer
			want  bool
		}{
			{"the same", 1, opening.Answer{Name: "x.", To: []opening.Destination{to}, Lasts: time.Minute}, true},
			{"for longer", 1, opening.Answer{Name: "x.", To: []opening.Destination{to}, Lasts: time.Minute + 1}, false},
			{"another name", 1, opening.Answer{Name: "y.", To: []opening.Destination{to}}, false},
			{"another address", 1, opening.Answer{Name: "x.", To: []opening.Destination{destination(2)}}, false},
			{"another guest", 2, opening.Answer{Name: "x.", To: []opening.Destination{to}}, false},
		} {
			answered.Store(0)
			if got := rec.Stands(placement.Opening{Guest: guestKey(tt.guest), To: tt.of.To[0]}, tt.of.Name, tt.of.Lasts); got != tt.want || got != (answered.Load() == answerTime(time.Now())) {
				t.Errorf("%s: %v, answered %v", tt.what, got, answered.Load())
			}
		}
		a := opening.Answer{Name: "x.", To: []opening.Destination{to}}
		for _, a.Trial = range []bool{true, false} {
			answered.Store(0)
			if _, done := rec.requests.add(guestKey(1), &a, time.Now()); done != nil || (answered.Load() == 0) != a.Trial {
				t.Errorf("an answer that stands waits: %v, or is counted: %v, trial: %v", done != nil, answered.Load(), a.Trial)
			}
		}
		a.To = append(a.To, destination(2))
		if _, done := rec.requests.add(guestKey(1), &a, time.Now()); done == nil {
			t.Error("an answer with another address does not wait")
		}
	})
}

func TestOpenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := NewReconciler(nil, new(Memory), nil)
		a := opening.Answer{Name: "x.", To: []opening.Destination{destination(1)}, Lasts: time.Minute}
		done := make(chan error)
		go func() { done <- rec.Open(context.Background(), guestKey(1), &a) }()
		synctest.Wait()
		rec.Stop()
		if err := <-done; err == nil {
			t.Error("opened")
		}
		if err := rec.Open(context.Background(), guestKey(1), &a); err == nil {
			t.Error("opened later")
		}
	})
}
