// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// installed returns guests' flows with one packet each.
func installed(s *placement.Service, at placement.Pipeline, guests []placement.Key, idle time.Duration) (all []openflow.FlowStats) {
	mods, lease := s.Private(at)
	mods = append(mods, lease)
	for _, key := range guests {
		mods = append(mods, s.OfGuest(at, &placement.Guest{Key: key}, 9)...)
	}
	for _, f := range mods {
		all = append(all, openflow.FlowStats{Table: f.Table, Priority: f.Priority, Cookie: f.Cookie, Match: f.Match, Packets: 1, Idle: idle})
	}
	return all
}

func TestHitsByGuest(t *testing.T) {
	s := &placement.Service{Addresses: []netip.AddrPort{netip.MustParseAddrPort("169.254.169.254:53"), netip.MustParseAddrPort("[fd00::254]:53")}, Neighbors: true, Cookie: 1}
	mac := [6]byte{2, 0, 0, 0, 0, 1}
	for _, tc := range []struct {
		name          string
		at            placement.Pipeline
		guests        []placement.Key
		flows         int
		queries       uint64
		entry, passed uint64
	}{
		{"ovn", placement.Pipeline{Kind: placement.OVN, Table: 30}, []placement.Key{{Datapath: 1, Port: 1}, {Datapath: 1, Port: 2, MAC: mac}}, 10, 7, 18, 1},
		{"local", placement.Pipeline{Kind: placement.Neutron, Priority: 210}, []placement.Key{{Port: 1}, {Port: 2, MAC: mac}}, 10, 4, 12, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at := time.Unix(1000, 0)
			h := &Counters{At: at, Flows: installed(s, tc.at, tc.guests, 7*time.Second)}
			all := h.ByGuest(tc.at.Kind)
			if len(all) != len(tc.guests) {
				t.Errorf("%d guests, want %d", len(all), len(tc.guests))
			}
			for _, key := range tc.guests {
				got := all[key]
				if got == nil || got.Flows != tc.flows || got.Queries != tc.queries || got.Neighbors != 2 || !got.LastQuery.Equal(at.Add(-7*time.Second)) {
					t.Errorf("%+v: %+v, want %d flows, %d queries", key, got, tc.flows, tc.queries)
				}
			}
			c := h.Sum(tc.at.Kind, at.Add(time.Second))
			if c.EntryPackets != tc.entry || c.PuntPackets != 1 || c.PassedPackets != tc.passed || c.SecondsAgo != 1 || c.Flows != len(h.Flows) {
				t.Errorf("%+v, want %d from guests", c, tc.entry)
			}
			// OpenFlow 1.3 does not report the time.
			h.Flows = installed(s, tc.at, tc.guests, -1)
			for key, g := range h.ByGuest(tc.at.Kind) {
				if !g.LastQuery.IsZero() {
					t.Errorf("%+v: %v", key, g.LastQuery)
				}
			}
		})
	}
}

func TestCountWithoutSwitch(t *testing.T) {
	b := &Bridge{counter: newCounter()}
	if _, err := b.count(t.Context()); err == nil {
		t.Error("there is no connection")
	}
	<-b.counter.semaphore
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.count(ctx); err == nil {
		t.Error("somebody else asks")
	}
}

// The switch is asked once a second at most, even if it refuses, but at once by another connection or for other
// flows. An operator who gives up leaves the counters for others.
func TestCountIsKept(t *testing.T) {
	const multipart, description, flowStats, refusal = 18, 0, 1, 1
	for _, refuses := range []bool{false, true} {
		t.Run(fmt.Sprintf("refuses %v", refuses), func(t *testing.T) {
			b := &Bridge{counter: newCounter()}
			var asked atomic.Int64
			connect := func() {
				conn, peer := punttest.Connect(t)
				var served sync.WaitGroup
				served.Go(func() { _ = conn.Serve(openflow.Handler{}) }) // until it is closed
				served.Go(func() {
					for m := make([]byte, 1<<16); ; {
						n, err := peer.Read(m)
						if err != nil {
							return
						}
						punttest.Each(m[:n], func(typ uint8, xid uint32) {
							if typ != multipart {
								return
							}
							kind := binary.BigEndian.Uint16(m[8:])
							reply := punttest.Message(multipart+1, xid, append(slices.Clone(m[8:10]), make([]byte, 6)...)) // an empty reply
							switch kind {
							case description:
								reply = punttest.Message(multipart+1, xid, append(slices.Clone(m[8:10]), make([]byte, 6+1056)...))
							case flowStats:
								asked.Add(1)
								if refuses {
									reply = punttest.Message(refusal, xid, append([]byte{0, 1, 0, 5}, m[:n]...))
								}
							}
							_, _ = peer.Write(reply) // the connection may be gone
						})
					}
				})
				t.Cleanup(func() { conn.Close(); peer.Close(); served.Wait() })
				b.conn.Store(conn)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ask := func(what string, want int64) {
				t.Helper()
				got, err := b.Count(ctx)
				var refused *openflow.SwitchError
				if errors.As(err, &refused) != refuses || (err != nil) != refuses || (got == nil) != refuses {
					t.Errorf("%s: %v, %v", what, got, err)
				}
				if n := asked.Load(); n != want {
					t.Errorf("%s: the switch was asked %d times, want %d", what, n, want)
				}
			}
			connect()
			b.state.Store(&SessionState{Server: NewServer(Config{}), Flows: flows.State{Cookie: 1}})
			begun := time.Now()
			ask("the first", 1)
			if wait := b.counter.next.Sub(begun); wait < minCountTime {
				t.Errorf("the switch may be asked again after %s, want %s at least", wait, minCountTime)
			}
			b.counter.next = time.Now().Add(time.Hour)
			ask("at once", 1)
			b.counter.next = time.Now()
			ask("later", 2)
			b.counter.next = time.Now().Add(time.Hour)
			b.state.Store(&SessionState{Server: NewServer(Config{}), Flows: flows.State{Cookie: 2}})
			ask("other flows", 3)
			b.counter.next = time.Now().Add(time.Hour)
			connect()
			ask("another connection", 4)
			b.counter.next = time.Now()
			cancel()
			ask("one who gives up", 5)
		})
	}
}

func TestCountInterval(t *testing.T) {
	for _, tt := range []struct {
		name     string
		took     time.Duration
		answered bool
		want     time.Duration
	}{
		{"at once", time.Millisecond, true, time.Second},
		{"many guests", 200 * time.Millisecond, true, 4 * time.Second},
		{"refused at once", time.Millisecond, false, time.Second},
		{"not in time", countTimeout, false, 2 * countTimeout},
	} {
		if got := countInterval(tt.took, tt.answered); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestCountAfterTimeout(t *testing.T) {
	conn, peer := punttest.Connect(t)
	var served sync.WaitGroup
	served.Go(func() { _ = conn.Serve(openflow.Handler{}) }) // until it is closed
	served.Go(func() { _, _ = io.Copy(io.Discard, peer) })
	t.Cleanup(func() { conn.Close(); peer.Close(); served.Wait() })
	b := &Bridge{counter: newCounter()}
	b.conn.Store(conn)
	b.state.Store(&SessionState{Server: NewServer(Config{}), Flows: flows.State{Cookie: 1}})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := b.count(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	took := time.Since(begun)
	if wait := time.Until(b.counter.next); wait > max(minCountTime, took) {
		t.Errorf("after %s without an answer the switch is not asked for another %s", took, wait)
	}
}
