// SPDX-License-Identifier: Apache-2.0

package refusals_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/puntdns/puntdns/ofpunt/refusals"
)

var start = time.Unix(1_800_000_000, 0)

// A guest has a line at the first beat, and then one a minute with what has come meanwhile.
func TestLines(t *testing.T) {
	var l refusals.Ledger
	red := refusals.Guest{Port: "red-vm1", Switch: "red"}
	blue := refusals.Guest{Port: "blue\nvm", Switch: "blue"}
	for _, step := range []struct {
		at   time.Duration
		add  func()
		want []string
	}{
		{0, func() {}, nil},
		{5 * time.Second, func() { l.Add(red, refusals.Rate, 7); l.Add(red, refusals.Rate, 0) },
			[]string{`port "red-vm1" of switch "red" was refused 7 packets over rate`}},
		{10 * time.Second, func() { l.Add(red, refusals.Rate, 3); l.Add(red, refusals.Concurrent, 1) }, nil},
		{20 * time.Second, func() {
			l.Add(red, refusals.Connections, 2)
			l.Add(blue, refusals.Overload, 4)
		}, []string{`port "blue\nvm" of switch "blue" was refused 4 queries by overload of its network or all`}},
		{64 * time.Second, func() {}, nil},
		{65 * time.Second, func() {}, []string{`port "red-vm1" of switch "red" was refused 3 packets over rate, 1 queries over max_concurrent, 2 TCP connections too many`}},
		{200 * time.Second, func() {}, nil},
	} {
		step.add()
		if got := l.Lines(start.Add(step.at)); !slices.Equal(got, step.want) {
			t.Errorf("after %s: %q, want %q", step.at, got, step.want)
		}
	}
}

// The busiest guests have the lines of a minute, and one line tells of the others. None is
// forgotten that is still refused.
func TestLinesAreBounded(t *testing.T) {
	var l refusals.Ledger
	const guests = 25
	add := func() {
		for i := range guests {
			l.Add(refusals.Guest{Port: fmt.Sprintf("vm%02d", i), Switch: "red"}, refusals.Rate, uint64(100+i))
		}
	}
	named := map[string]int{}
	for minute := range 6 {
		at := start.Add(time.Duration(minute) * time.Minute)
		lines := 0
		for beat := range 12 {
			add()
			for _, line := range l.Lines(at.Add(time.Duration(beat) * 5 * time.Second)) {
				lines++
				named[strings.SplitN(line, " of switch", 2)[0]]++
				if beat > 0 {
					t.Errorf("minute %d, beat %d: %s", minute, beat, line)
				}
			}
		}
		if lines != 11 {
			t.Errorf("minute %d: %d lines, want 10 and one of the others", minute, lines)
		}
	}
	if len(named) < guests {
		t.Errorf("%d guests were named in six minutes, want all %d: %v", len(named), guests, named)
	}

	var o refusals.Ledger
	for i := range 25 {
		o.Add(refusals.Guest{Port: fmt.Sprintf("vm%02d", i), Switch: "red"}, refusals.Rate, uint64(1+i))
	}
	got := o.Lines(start)
	if len(got) != 11 || !strings.Contains(got[0], `"vm24" of switch "red" was refused 25 packets`) ||
		got[10] != "15 further ports were refused 120 packets, queries or connections, the log names 10 a minute" {
		t.Errorf("%q", got)
	}
}

// Memory is bounded where more guests are refused than a chassis has, and comes back.
func TestGuestsAreBounded(t *testing.T) {
	var l refusals.Ledger
	for i := range 5000 {
		l.Add(refusals.Guest{Port: fmt.Sprint("vm", i)}, refusals.Rate, 1)
	}
	lines := l.Lines(start)
	if last := lines[len(lines)-1]; last != "at least 1014 further ports were refused 4990 packets, queries or connections, the log names 10 a minute" {
		t.Errorf("%q", last)
	}
	for i := range 200 {
		l.Lines(start.Add(time.Duration(i+1) * time.Minute))
	}
	l.Add(refusals.Guest{Port: "late"}, refusals.Rate, 1)
	if got := l.Lines(start.Add(300 * time.Minute)); len(got) != 1 || !strings.Contains(got[0], `"late"`) {
		t.Errorf("%q", got)
	}
}

// Guests that were refused something once, and those that go on, leave room for one that comes later.
func TestLateGuestIsNamed(t *testing.T) {
	for name, again := range map[string]int{"ten others go on": 10, "all others go on": 1100} {
		t.Run(name, func(t *testing.T) {
			var l refusals.Ledger
			refuse := func(guests int) {
				for i := range guests {
					l.Add(refusals.Guest{Port: fmt.Sprint("vm", i)}, refusals.Rate, 100)
				}
			}
			refuse(1100)
			l.Lines(start)
			for minute := 1; minute <= 20; minute++ {
				l.Add(refusals.Guest{Port: "late"}, refusals.Rate, 1_000_000)
				refuse(again)
				lines := l.Lines(start.Add(time.Duration(minute) * time.Minute))
				if len(lines) == 0 || lines[0] != `port "late" of switch "" was refused 1000000 packets over rate` {
					t.Fatalf("minute %d: %q", minute, lines)
				}
			}
		})
	}
}

// What was refused is told once, by the line of the guest or that about further ports.
func TestToldOnce(t *testing.T) {
	var l refusals.Ledger
	told := func(minute int) (all uint64) {
		for _, line := range l.Lines(start.Add(time.Duration(minute) * time.Minute)) {
			_, what, _ := strings.Cut(line, " refused ")
			n := uint64(0)
			if _, err := fmt.Sscan(what, &n); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			all += n
		}
		return all
	}
	for minute, guests := range []int{2000, 25, 0, 12, 12, 0} {
		for i := range guests {
			l.Add(refusals.Guest{Port: fmt.Sprint("vm", i)}, refusals.Rate, 3)
		}
		if got, want := told(minute), uint64(3*guests); got != want {
			t.Errorf("minute %d: the lines tell of %d packets, want %d", minute, got, want)
		}
	}
}

// Readers, workers and the session use one ledger.
func TestConcurrent(t *testing.T) {
	var (
		l    refusals.Ledger
		done sync.WaitGroup
		g    = refusals.Guest{Port: "vm", Switch: "red"}
	)
	for range 4 {
		done.Go(func() {
			for range 1000 {
				l.Add(g, refusals.Concurrent, 1)
			}
		})
	}
	done.Wait()
	if got := l.Lines(start); len(got) != 1 || !strings.Contains(got[0], "4000 queries over max_concurrent") {
		t.Errorf("%q", got)
	}
	if n := testing.AllocsPerRun(100, func() { l.Add(g, refusals.Concurrent, 1) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
