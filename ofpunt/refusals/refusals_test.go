// SPDX-License-Identifier: Apache-2.0

package refusals_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/testkit/golden"
	"github.com/puntdns/puntdns/ofpunt/refusals"
)

var start = time.Unix(1_800_000_000, 0)

// A line at the first heartbeat, then one a minute.
func TestLines(t *testing.T) {
	var l refusals.Ledger
	red := refusals.Guest{Port: "red-vm1", Switch: "red"}
	blue := refusals.Guest{Port: "blue\nvm", Switch: "blue"}
	var all []string
	for _, step := range []struct {
		at     time.Duration
		add    func()
		want   []string
		red    refusals.Counts
		guests int // refused
	}{
		{0, func() {}, nil, refusals.Counts{}, 0},
		{5 * time.Second, func() { l.Add(red, refusals.Rate, 7); l.Add(red, refusals.Rate, 0) },
			[]string{`"red-vm1" "red" 7`}, refusals.Counts{refusals.Rate: 7}, 1},
		{10 * time.Second, func() { l.Add(red, refusals.Rate, 3); l.Add(red, refusals.Concurrent, 1) }, nil,
			refusals.Counts{refusals.Rate: 10, refusals.Concurrent: 1}, 1},
		{20 * time.Second, func() {
			l.Add(red, refusals.Connections, 2)
			l.Add(blue, refusals.Overload, 4)
		}, []string{`"blue\nvm" "blue" 4`}, refusals.Counts{refusals.Rate: 10, refusals.Concurrent: 1, refusals.Connections: 2}, 2},
		{64 * time.Second, func() {}, nil, refusals.Counts{refusals.Rate: 10, refusals.Concurrent: 1, refusals.Connections: 2}, 2},
		{65 * time.Second, func() {}, []string{`"red-vm1" "red" 3 1 2`}, refusals.Counts{refusals.Rate: 10, refusals.Concurrent: 1, refusals.Connections: 2}, 2},
		{79 * time.Second, func() {}, nil, refusals.Counts{refusals.Rate: 10, refusals.Concurrent: 1, refusals.Connections: 2}, 2},
		{80 * time.Second, func() {}, nil, refusals.Counts{}, 0}, // a minute without a refusal
		{100 * time.Second, func() { l.Add(red, refusals.Rate, 5) }, nil, refusals.Counts{refusals.Rate: 5}, 1},
	} {
		step.add()
		var got []string
		for _, line := range l.Lines(start.Add(step.at)) {
			got, all = append(got, facts(line)), append(all, line)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("after %s: %q, want %q", step.at, got, step.want)
		}
		if got := l.Of(red); got != step.red {
			t.Errorf("after %s: %v, want %v", step.at, got, step.red)
		}
		if guest, n := l.Busiest(); n != step.guests || n > 0 && guest != red {
			t.Errorf("after %s: %v of %d, want red of %d", step.at, guest, n, step.guests)
		}
	}
	golden.Check(t, strings.Join(all, "\n"))
}

// facts returns names and numbers of a line.
func facts(line string) string {
	return strings.Join(regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\b[0-9]+\b`).FindAllString(line, -1), " ")
}

// The busiest guests have the lines of a minute, one line counts the others. Guests still refused get a line later.
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
				if name, _, _ := strings.Cut(facts(line), " "); name[0] == '"' {
					named[name]++
				}
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
	if len(got) != 11 || facts(got[0]) != `"vm24" "red" 25` || facts(got[10]) != "15 120 10" {
		t.Errorf("%q", got)
	}
}

// Memory is bounded, and freed.
func TestGuestsAreBounded(t *testing.T) {
	var l refusals.Ledger
	for i := range 5000 {
		l.Add(refusals.Guest{Port: fmt.Sprint("vm", i)}, refusals.Rate, 1)
	}
	lines := l.Lines(start)
	if last := lines[len(lines)-1]; facts(last) != "1014 4990 10" {
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

// Guests that were refused once, or still are, leave room for a later one.
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
				if len(lines) == 0 || facts(lines[0]) != `"late" "" 1000000` {
					t.Fatalf("minute %d: %q", minute, lines)
				}
			}
		})
	}
}

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
	if got := l.Lines(start); len(got) != 1 || facts(got[0]) != `"vm" "red" 4000` {
		t.Errorf("%q", got)
	}
	if n := testing.AllocsPerRun(100, func() { l.Add(g, refusals.Concurrent, 1) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
