// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// flood sends the same query as fast as the guest can, for that long and that
// often at most. It returns how many were sent.
func flood(g *lab.Guest, most int, d time.Duration) (sent int, err error) {
	query, err := new(dns.Msg).SetQuestion("db.internal.", dns.TypeA).Pack()
	if err != nil {
		return 0, err
	}
	err = g.Do(func() error {
		conn, err := net.Dial("udp", net.JoinHostPort(resolver4, "53"))
		if err != nil {
			return err
		}
		defer conn.Close()
		for end := time.Now().Add(d); sent < most && time.Now().Before(end); sent++ {
			// What the kernel has no room for is not sent.
			_, _ = conn.Write(query)
		}
		return nil
	})
	return sent, err
}

// A guest that asks as fast as it can takes nothing from another, since the
// switch lets through what `rate` says and no more.
func TestNeighbourFloods(t *testing.T) {
	const (
		perSecond = 100 // of the other guest
		lasts     = 5 * time.Second
		most      = 500_000
		rate      = 1000
	)
	n := newSurvivor(t)
	victim := aclGuest(n.l, "red", 0, 12)
	for _, tc := range []struct {
		name, properties string
		limited          bool
	}{
		{"with rate", "rate 1000", true},
		{"without rate", "rate off", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, n.l, n.corefile(tc.properties, "", 9153, 8181))
			s.t = t
			s.ready(200)
			asks := func(d time.Duration) findings {
				q := questions(t, victim, resolver4)
				if err := paceFor(d, perSecond, func(int) error { return q.ask("db.internal.", dns.TypeA, ofSurvivor) }); err != nil {
					t.Error(err)
				}
				return q.finish(wait)
			}
			quiet := asks(2 * time.Second)
			t.Logf("quiet: %s", quiet)
			quiet.clean(t, "quiet")

			before, dropped := s.metric("coredns_ofpunt_packet_ins_total"), overflows(t, n.l.Node)
			var sent int
			var took time.Duration
			var flooding sync.WaitGroup
			flooding.Go(func() {
				began := time.Now()
				var err error
				if sent, err = flood(n.vm, most, lasts); err != nil {
					t.Error(err)
				}
				took = time.Since(began)
			})
			loaded := asks(lasts)
			flooding.Wait()
			punts := int(s.metric("coredns_ofpunt_packet_ins_total")-before) - loaded.asked
			t.Logf("beside %d queries in %s, of which %d were punted and %d packet-ins dropped by the switch: %s",
				sent, took, punts, overflows(t, n.l.Node)-dropped, loaded)
			if sent < 5*rate*int(lasts/time.Second) {
				t.Errorf("the flood is too small to show anything")
			}
			limit := rate + int(took.Seconds()*rate)
			if !tc.limited {
				if punts <= limit {
					t.Errorf("%d packets of the flood were punted in %s, no more than with a rate", punts, took)
				}
				s.endWell()
				return
			}
			loaded.right(t, "beside a flood")
			// On a busy machine the switch may not get rid of what the meter lets through.
			if most := overflows(t, n.l.Node) - dropped; loaded.lost > most || loaded.twice > 0 {
				t.Errorf("%d queries have no answer and %d more than one, and the switch has dropped %d packet-ins", loaded.lost, loaded.twice, most)
			}
			// How much slower, a benchmark tells: the machine is not the test's alone.
			// The meter's bucket is full at the beginning; a tenth for its clock.
			if punts > limit+limit/10 {
				t.Errorf("%d packets of the flood were punted in %s, want at most %d", punts, took, limit)
			}
			s.endWell()
		})
	}
}

// split is two tenants with an upstream each, that of red being dead.
type split struct {
	l       *lab.Lab
	red     [2]*lab.Guest
	blue    *lab.Guest
	dead    *lab.DNSServer
	healthy *lab.DNSServer
}

func newSplit(t *testing.T) split {
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	aclSwitch(l, "blue", 2)
	l.AddDNS(map[string]string{"db.internal": "10.0.2.99"}, "blue")
	n := split{
		l: l, red: [2]*lab.Guest{aclGuest(l, "red", 1, 1), aclGuest(l, "red", 1, 2)}, blue: aclGuest(l, "blue", 2, 1),
		dead: l.Upstream(), healthy: l.Upstream("www.example.org. 60 IN A 192.0.2.1"),
	}
	n.dead.SetHandler(dns.HandlerFunc(func(dns.ResponseWriter, *dns.Msg) {}))
	l.Sync()
	return n
}

func (n split) corefile(properties string) string {
	return `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        ` + unlimited(properties) + `
    }
    metadata
    view red {
        expr metadata('ofpunt/switch') == 'red'
    }
    ovnhosts {
        southbound $SB
        fallthrough
    }
    forward . ` + n.dead.Addr + `
    prometheus ` + metricsAddr + `
    pprof ` + wireProfile + `
    ready ` + readyAddr + ` {
        monitor continuously
    }
}
. {
    ofpunt br-int
    metadata
    ovnhosts {
        southbound $SB
        fallthrough
    }
    forward . ` + n.healthy.Addr + `
}
`
}

// window is how many packets may be on their way to puntdns at a time: fewer than
// the queue of the switch has room for.
const window = 50

// askDead asks for that many names that only the dead upstream could know.
// Room is how many of them may wait for it.
func (n split) askDead(q *questioner, number, room int) error {
	before := len(n.dead.Asked())
	for i := range number {
		switch {
		case i >= room:
			if !q.below(room+window, wait) {
				return fmt.Errorf("%d queries are without an answer", q.pending())
			}
		case i%window == 0:
			// The upstream has those before it, unless they were answered without it.
			for end := time.Now().Add(wait); ; time.Sleep(5 * time.Millisecond) {
				missing := q.pending() - (len(n.dead.Asked()) - before)
				if missing <= 0 {
					break
				}
				if time.Now().After(end) {
					return fmt.Errorf("%d of %d queries have not reached the upstream", missing, i)
				}
			}
		}
		if err := q.ask(fmt.Sprintf("n%d.dead.example.", i), dns.TypeA, "SERVFAIL"); err != nil {
			return err
		}
	}
	return nil
}

// punted is how many packet-ins had a result for a reason.
func (s *server) punted(result, reason string) int {
	s.t.Helper()
	return int(s.metric("coredns_ofpunt_packet_ins_total", "bridge", lab.Bridge, "result", result, "reason", reason))
}

// A tenant whose upstream is dead asks for more than there is room for. It gets
// errors at once and the other tenant all its answers, and nothing of it stays.
func TestNeighbourAsksTheDead(t *testing.T) {
	const (
		number = 10_000
		room   = 512 // the default for a guest
	)
	n := newSplit(t)
	s := start(t, n.l, n.corefile(""))
	s.ready(200)
	quiet := s.usage()
	t.Logf("quiet: %s", quiet)
	var once usage // after the first round
	for round := range 3 {
		refused, overflowed := s.punted("refused", "port-limit"), overflows(t, n.l.Node)
		red := questions(t, n.red[0], resolver4)
		blue := [2]*questioner{questions(t, n.blue, resolver4), questions(t, n.blue, resolver6)}
		var dead findings
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := n.askDead(red, number, room); err != nil {
				t.Error(err)
			}
			dead = red.finish(wait)
		}()
		peak := quiet
		for busy := true; busy; {
			if err := paceFor(time.Second/2, 100, func(i int) error {
				if i%2 == 0 {
					return blue[0].ask("db.internal.", dns.TypeA, "NOERROR 30 10.0.2.99")
				}
				return blue[1].ask("www.example.org.", dns.TypeA, "NOERROR 192.0.2.1")
			}); err != nil {
				t.Error(err)
			}
			peak = peak.most(s.usage())
			select {
			case <-done:
				busy = false
			default:
			}
		}
		refused = s.punted("refused", "port-limit") - refused
		t.Logf("red: %d refused, %d packet-ins dropped by the switch, %s; at most %s", refused, overflows(t, n.l.Node)-overflowed, dead, peak)
		dead.clean(t, "red")
		// While it asks, its first queries may come to their end and make room.
		if refused < number*3/4 || refused > number-room {
			t.Errorf("%d of %d queries were over the limit of %d", refused, number, room)
		}
		// Those within the limit wait for their deadline.
		deadline := dead.within(1)
		if took := dead.within(.9 * float64(refused) / number); took > deadline/2 {
			t.Errorf("of the errors for queries over the limit 90 %% took up to %s, and those for others up to %s", took, deadline)
		}
		for i, q := range blue {
			who := []string{"blue, a name of its network", "blue, a name of its upstream"}[i]
			f := q.finish(wait)
			t.Logf("%s: %s", who, f)
			f.clean(t, who)
			if took := f.within(.9); took > deadline/2 {
				t.Errorf("%s: 90 %% of the answers took up to %s, with a deadline of %s", who, took, deadline)
			}
		}

		// A query that waits has a goroutine and a socket, and some stay for a while.
		if most := quiet.goroutines + 2*room; peak.goroutines > most {
			t.Errorf("%v goroutines, want at most %v", peak.goroutines, most)
		}
		if most := quiet.files + room + 100; peak.files > most {
			t.Errorf("%v open files, want at most %v", peak.files, most)
		}
		if most := quiet.memory + 250e6; peak.memory > most {
			t.Errorf("%v bytes of memory, want at most %v", peak.memory, most)
		}
		idle := 64 * float64(runtime.GOMAXPROCS(0)) // workers that wait for the next query
		n.l.Eventually("the level of before", func() error {
			s.collectGarbage(wireProfile)
			u := s.usage()
			if u.goroutines > quiet.goroutines+idle+20 || u.files > quiet.files+20 ||
				round > 0 && u.memory > 2*once.memory {
				return fmt.Errorf("%s; quiet %s; after the first round %s", u, quiet, once)
			}
			return nil
		})
		if round == 0 {
			once = s.usage()
		}
	}
	t.Logf("at the end: %s", s.usage())
	s.endWell()
}

// With `overload drop` what there is no room for has no answer.
func TestNeighbourAsksTheDeadInSilence(t *testing.T) {
	t.Parallel()
	const (
		number = 1000
		room   = 100
	)
	n := newSplit(t)
	s := start(t, n.l, n.corefile(fmt.Sprintf("max_concurrent 4096 %d\n overload drop", room)))
	s.ready(200)
	red, blue := questions(t, n.red[0], resolver4), questions(t, n.blue, resolver4)
	for asked := 0; asked < number; asked += window {
		for range window {
			if err := red.ask("www.dead.example.", dns.TypeA, "SERVFAIL"); err != nil {
				t.Fatal(err)
			}
		}
		if err := blue.ask("db.internal.", dns.TypeA, "NOERROR 30 10.0.2.99"); err != nil {
			t.Fatal(err)
		}
		// Nothing comes back; the counters tell when they have been looked at.
		n.l.Eventually("all is taken or dropped", func() error {
			if got := s.punted("dropped", "port-limit") + n.dead.Count("www.dead.example."); got < asked+window-room/2 {
				return fmt.Errorf("%d of %d", got, asked+window)
			}
			return nil
		})
	}
	n.l.Eventually("all is answered or dropped", func() error {
		if left, dropped := red.pending(), s.punted("dropped", "port-limit"); left != dropped {
			return fmt.Errorf("%d without an answer, %d dropped", left, dropped)
		}
		return nil
	})
	f := red.finish(0)
	dropped := s.punted("dropped", "port-limit")
	t.Logf("%d dropped: %s", dropped, f)
	f.right(t, "red")
	if f.lost != dropped || dropped < number/2 || dropped > number-room || s.punted("refused", "port-limit") != 0 {
		t.Errorf("%d of %d queries have no answer, %d were dropped", f.lost, number, dropped)
	}
	blue.finish(wait).clean(t, "blue")
	s.endWell()
}

// However many guests of a network ask, they have no more places than they leave
// free: the next one of that network gets what the Corefile says, and its answers
// again when there is room; those of other networks notice nothing.
func TestNeighboursFillTheirShare(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ overload, want, result string }{
		{"servfail", "SERVFAIL", "refused"},
		{"drop", "no reply", "dropped"},
	} {
		t.Run(tc.overload, func(t *testing.T) {
			t.Parallel()
			const room = 32
			n := newSplit(t)
			s := start(t, n.l, n.corefile(fmt.Sprintf("max_concurrent %d %d\n overload %s", 2*room, room, tc.overload)))
			s.ready(200)
			if err := n.askDead(questions(t, n.red[0], resolver4), room, room); err != nil {
				t.Fatal(err)
			}
			n.l.Eventually("all of its places are taken", func() error {
				if got := len(n.dead.Asked()); got < room {
					return fmt.Errorf("%d", got)
				}
				return nil
			})
			// The places are taken for 4 s.
			for i, tt := range []struct {
				g          *lab.Guest
				name, want string
			}{
				{n.red[1], "db.internal.", tc.want},
				{n.red[1], "www.example.org.", tc.want},
				{n.blue, "db.internal.", "NOERROR 10.0.2.99"},
				{n.blue, "www.example.org.", "NOERROR 192.0.2.1"},
			} {
				patience := wait
				if tt.want == "no reply" {
					patience = 500 * time.Millisecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				got := "no reply"
				if r, err := exchange(ctx, tt.g, resolver4, tt.name, dns.TypeA); err == nil {
					got = inShort(r)
				}
				cancel()
				if got != tt.want {
					t.Errorf("%s asks for %s: %s, want %s", tt.g.Name, tt.name, got, tt.want)
				}
				// It is counted when it has been answered.
				n.l.Eventually("the count of "+tc.result, func() error {
					if got, want := s.punted(tc.result, "overload"), min(i+1, 2); got != want {
						return fmt.Errorf("%d queries for overload, want %d", got, want)
					}
					return nil
				})
			}
			n.l.Eventually("red has its places again", func() error {
				// Nobody has the name, and the upstream says nothing: some answer is.
				before := s.punted(tc.result, "overload")
				n.red[1].Dig("+time=1", "db.internal", "@"+resolver4)
				if after := s.punted(tc.result, "overload"); after != before {
					return fmt.Errorf("%d turned away", after)
				}
				return nil
			})
			if got := s.punted(tc.result, "port-limit"); got != 0 {
				t.Errorf("%d queries %s for the limit of a guest", got, tc.result)
			}
			s.endWell()
		})
	}
}

// Names of the databases are answered by the reader of the connection, unless the
// Corefile has a chain wait over them: then other guests do not wait along.
func TestNeighbourWaitsForKnownName(t *testing.T) {
	t.Parallel()
	n := newSplit(t)
	n.l.AddDNS(map[string]string{"known.internal": "10.0.1.99"}, "red")
	n.l.Sync()
	// Red's names are to be known elsewhere, which is dead.
	s := start(t, n.l, strings.Replace(n.corefile(""), `    ovnhosts {
        southbound $SB
        fallthrough
    }
    forward . `+n.dead.Addr, "    forward . "+n.dead.Addr, 1))
	s.ready(200)
	red, blue := questions(t, n.red[0], resolver4), questions(t, n.blue, resolver4)
	if err := paceFor(3*time.Second, 50, func(i int) error {
		if i%10 == 0 {
			if err := red.ask("known.internal.", dns.TypeA, "SERVFAIL"); err != nil {
				return err
			}
		}
		return blue.ask("db.internal.", dns.TypeA, "NOERROR 30 10.0.2.99")
	}); err != nil {
		t.Fatal(err)
	}
	ofRed, ofBlue := red.finish(wait), blue.finish(wait)
	t.Logf("red: %s\nblue: %s", ofRed, ofBlue)
	ofRed.clean(t, "red")
	ofBlue.clean(t, "blue")
	if took, waited := ofBlue.within(.9), ofRed.within(0); took > waited/2 {
		t.Errorf("90 %% of blue's answers took up to %s, and red waits for %s", took, waited)
	}
	s.toldTimes(t, 0, logReaderKept)
	s.endWell()
}
