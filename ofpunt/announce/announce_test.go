// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// One step is "TIME SERVED: DUE, next TIME". Served and due are localnet ports PORT.TAG; served has
// the last byte of a MAC address behind it.
func TestSchedule(t *testing.T) {
	for _, tt := range []struct{ name, steps string }{
		{"nothing is served", `
			0s : none
			1h : none`},
		{"repeats", `
			0s    1.0/a: 1.0, next 1s
			900ms 1.0/a: next 1s
			1s    1.0/a: 1.0, next 3s
			3s    1.0/a: 1.0, next 7s
			7s    1.0/a: 1.0, next 15s
			15s   1.0/a: 1.0
			1h    1.0/a: none`},
		{"a late step delays what follows", `
			0s 1.0/a: 1.0, next 1s
			5s 1.0/a: 1.0, next 7s
			7s 1.0/a: 1.0, next 11s`},
		{"one for all that begin at once", `
			0s 1.0/a 1.0/b 1.0/c: 1.0, next 1s
			1s 1.0/a 1.0/b 1.0/c: 1.0, next 3s`},
		{"each localnet port and VLAN", `
			0s 2.0/a 1.5/a 1.0/a: 1.0 1.5 2.0, next 1s
			1s 2.0/a 1.5/a 1.0/a: 1.0 1.5 2.0, next 3s`},
		{"one more begins anew", `
			0s  1.0/a: 1.0, next 1s
			10s 1.0/a: 1.0, next 12s
			11s 1.0/a 1.0/b: 1.0, next 12s
			12s 1.0/a 1.0/b: 1.0, next 14s`},
		{"one more behind another localnet port", `
			0s    1.0/a: 1.0, next 1s
			500ms 1.0/a 2.0/b: 2.0, next 1s
			1s    1.0/a 2.0/b: 1.0, next 1.5s
			1.5s  1.0/a 2.0/b: 2.0, next 3s`},
		{"one less goes on", `
			0s 1.0/a 1.0/b: 1.0, next 1s
			1s 1.0/b: 1.0, next 3s
			3s 1.0/b: 1.0, next 7s`},
		{"the last goes", `
			0s    1.0/a: 1.0, next 1s
			500ms : none
			1s    : none
			1h    : none`},
		{"comes back", `
			0s 1.0/a: 1.0, next 1s
			1s : none
			2s 1.0/a: 1.0, next 3s`},
		{"comes back to another VLAN", `
			0s 1.0/a: 1.0, next 1s
			0s 1.7/a: next 50ms
			50ms 1.7/a: 1.7, next 1.05s`},
		{"comes and goes all the time", `
			0s    1.0/a: 1.0, next 1s
			50ms  : none
			60ms  1.0/a: next 200ms
			100ms : none
			150ms 1.0/a: next 200ms
			200ms 1.0/a: 1.0, next 1.2s
			210ms 1.0/b: next 400ms
			400ms 1.0/b: 1.0, next 1.4s`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s Schedule
			start := time.Unix(1e9, 0)
			var want, got []string
			for _, line := range strings.Split(strings.TrimSpace(tt.steps), "\n") {
				line = strings.Join(strings.Fields(line), " ")
				want = append(want, line)
				in, _, _ := strings.Cut(line, ":")
				words := strings.Fields(in)
				at, err := time.ParseDuration(words[0])
				if err != nil {
					t.Fatal(err)
				}
				var served []Served
				for _, w := range words[1:] {
					var one Served
					if _, err := fmt.Sscanf(w, "%d.%d/%x", &one.Port, &one.Tag, &one.MAC[5]); err != nil {
						t.Fatal(err)
					}
					served = append(served, one)
				}
				got = append(got, in+":"+describe(start)(s.Step(start.Add(at), served)))
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func describe(start time.Time) func(due []Localnet, next time.Time) string {
	return func(due []Localnet, next time.Time) (text string) {
		for _, l := range due {
			text += fmt.Sprintf(" %d.%d", l.Port, l.Tag)
		}
		if !next.IsZero() {
			if text != "" {
				text += ","
			}
			text += fmt.Sprint(" next ", next.Sub(start))
		}
		if text == "" {
			return " none"
		}
		return text
	}
}

// Of a great many that begin at once none is left out, and no burst is too long.
func TestBurst(t *testing.T) {
	const localnets = 5*maxBurst + 3
	var served []Served
	for i := range localnets {
		served = append(served, Served{Localnet: Localnet{Port: uint32(i)}})
	}
	var s Schedule
	start := time.Unix(1e9, 0)
	now, last, count := start, time.Time{}, map[Localnet]int{}
	for next := start; !next.IsZero(); {
		// Something else calls Step halfway.
		for _, now = range []time.Time{now.Add(next.Sub(now) / 2), next} {
			var due []Localnet
			due, next = s.Step(now, served)
			if len(due) == 0 {
				continue
			}
			if len(due) > maxBurst || now.Sub(last) < burstPause {
				t.Fatalf("%d are due, %s after others", len(due), now.Sub(last))
			}
			last = now
			for _, l := range due {
				count[l]++
			}
		}
	}
	if len(count) != localnets {
		t.Errorf("%d localnet ports, want %d", len(count), localnets)
	}
	for l, n := range count {
		if n != repeats {
			t.Errorf("%d announcements at %v, want %d", n, l, repeats)
		}
	}
	if took := last.Sub(start); took > time.Minute {
		t.Errorf("the last one after %s", took)
	}
}

// Whatever comes and goes: nothing is announced where nothing is served, who begins is announced
// soon, and no localnet port has more announcements than the pause permits.
func TestRandomSteps(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var s Schedule
		now, served := time.Unix(1e9, 0), []Served(nil)
		last, waiting := map[Localnet]time.Time{}, map[Localnet]time.Time{}
		for range 300 {
			if r.IntN(3) == 0 {
				one := Served{Localnet{uint32(r.IntN(3)), uint16(r.IntN(2))}, [6]byte{5: byte(r.IntN(3))}}
				if i := slices.Index(served, one); i >= 0 {
					served = slices.Delete(slices.Clone(served), i, i+1)
					if !slices.ContainsFunc(served, func(o Served) bool { return o.Localnet == one.Localnet }) {
						delete(waiting, one.Localnet)
					}
				} else {
					served = append(slices.Clone(served), one)
					waiting[one.Localnet] = now
				}
			}
			due, next := s.Step(now, served)
			for _, l := range due {
				switch {
				case !slices.ContainsFunc(served, func(o Served) bool { return o.Localnet == l }):
					t.Fatalf("seed %d: an announcement at %v, where nothing is served", seed, l)
				case now.Sub(last[l]) < minPause:
					t.Fatalf("seed %d: an announcement at %v after %s", seed, l, now.Sub(last[l]))
				}
				last[l] = now
				delete(waiting, l)
			}
			for l, since := range waiting {
				if now.Sub(since) > minPause+burstPause {
					t.Fatalf("seed %d: no announcement at %v for %s", seed, l, now.Sub(since))
				}
			}
			if !next.IsZero() && !next.After(now) {
				t.Fatalf("seed %d: the next step is %s ago", seed, now.Sub(next))
			}
			pause := time.Duration(r.IntN(300)) * time.Millisecond
			if !next.IsZero() {
				pause = min(pause, next.Sub(now))
			}
			now = now.Add(pause)
		}
	}
}
