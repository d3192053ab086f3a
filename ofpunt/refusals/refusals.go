// SPDX-License-Identifier: Apache-2.0

// Package refusals records what limits refuse each guest, for the log and for the control socket. It has
// no clock, no log and no goroutine:
//
//	reader, workers ──Add──► Ledger ──Lines──► log, at each heartbeat of the session
//	                           └────Of, Busiest──► control socket
//
// Memory and log lines are bounded, whatever guests do: see [Ledger].
package refusals

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Guest is a guest as the log names it.
type Guest struct{ Port, Switch string }

// Kind is the property of ofpunt that has refused something.
type Kind uint8

// The kinds.
const (
	Rate        Kind = iota // packets that the switch has dropped
	Concurrent              // queries over max_concurrent of the guest or its limit
	Overload                // queries over what all guests, or those of its network, may have in flight
	Connections             // attempts to connect over what the guest or its network may have open
	kinds
)

// Counts are refusals by kind: packets, queries or attempts to connect.
type Counts [kinds]uint64

// Total returns the sum of all kinds.
func (c *Counts) Total() (n uint64) {
	for _, k := range c {
		n += k
	}
	return n
}

// says is what the log says of each kind.
var says = [kinds]string{
	Rate:        "packets over rate",
	Concurrent:  "queries over max_concurrent",
	Overload:    "queries by overload of its network or all",
	Connections: "TCP connections too many",
}

const (
	// Period is the least time between two lines of one guest, and the time that maxLines is
	// for.
	Period = time.Minute
	// maxLines is how many guests get a line in a period; the busiest do.
	maxLines = 10
	// maxGuests is how many guests are kept at a time, more than half of the guests of a large
	// chassis. Others are only known to exist.
	maxGuests = 1024
	// maxKept is how many of them are left by the line about those without one, the busiest. The
	// rest of the room is for guests that were not refused anything before.
	maxKept = maxGuests / 2
)

// Ledger has the refusals of the last minutes, and which of them are not logged yet. A guest gets at most one line in a [Period]. All guests
// together get at most maxLines and one more line, which counts the guests without a line. Each refusal is
// logged once, in one of both. The zero value is empty. It is safe for concurrent use.
type Ledger struct {
	mu sync.Mutex // guards what follows
	// guests are the guests with a refusal to log, or with a line within the last period.
	guests map[Guest]*account
	// unnamed counts what was refused to guests that found no room.
	unnamed uint64
	// since is when the present period began, lines how many guests got a line in it, and
	// summed is set once it had its line about the others.
	since  time.Time
	lines  int
	summed bool
}

// account is what one guest was refused.
type account struct {
	// counts are the refusals that no line has yet, and all are the refusals since the guest was last without one
	// for a Period.
	counts, all Counts
	// fresh is set if something was refused since the last call of Lines, and refused is the time of the last call
	// that found it set.
	fresh   bool
	refused time.Time
	// waited is the part of the refusals that lines about further ports have logged since the last line of
	// the guest.
	waited uint64
	// logged is when the guest had its last line, and summed when it was last among the further
	// ports; zero for never.
	logged, summed time.Time
}

// rank is what the guest was refused since its last line: who is refused for long gets a line too.
func (a *account) rank() uint64 { return a.waited + a.counts.Total() }

// Add records that a guest was refused n packets, queries or connections. It does not block for long, and
// allocates only for the first refusal of a guest.
func (l *Ledger) Add(g Guest, k Kind, n uint64) {
	if n == 0 || k >= kinds {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.guests[g]
	if a == nil {
		if len(l.guests) >= maxGuests {
			l.unnamed += n
			return
		}
		if l.guests == nil {
			l.guests = make(map[Guest]*account)
		}
		a = new(account)
		l.guests[g] = a
	}
	a.counts[k] += n
	a.all[k] += n
	a.fresh = true
}

// Of returns what a guest was refused since it was last without a refusal for a [Period]. It is zero for a guest
// that is within its limits. The time is the time of the last call of Lines.
func (l *Ledger) Of(g Guest) (c Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.guests[g]; a != nil {
		c = a.all
	}
	return c
}

// Busiest returns how many guests [Ledger.Of] is not zero for, and the guest that was refused most.
func (l *Ledger) Busiest() (busiest Guest, guests int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var most uint64
	for g, a := range l.guests {
		n := a.all.Total()
		if n == 0 {
			continue
		}
		if n > most || n == most && (guests == 0 || compare(g, busiest) < 0) {
			busiest, most = g, n
		}
		guests++
	}
	return busiest, guests
}

func compare(a, b Guest) int {
	return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Switch, b.Switch))
}

// Lines returns the lines to log at a time. The time must not go back.
func (l *Ledger) Lines(now time.Time) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.guests) == 0 && l.unnamed == 0 {
		return nil
	}
	if now.Sub(l.since) >= Period {
		l.since, l.lines, l.summed = now, 0, false
	}
	l.expire(now)
	due := l.due(now)
	for len(due) > 0 && l.lines < maxLines {
		a := l.guests[due[0]]
		lines = append(lines, line(due[0], a))
		a.counts, a.waited, a.logged, a.summed = Counts{}, 0, now, time.Time{}
		due = due[1:]
		l.lines++
	}
	if (len(due) > 0 || l.unnamed > 0) && !l.summed {
		l.summed = true
		lines = append(lines, l.sum(due, now))
	}
	return lines
}

// expire forgets the refusals of guests that were refused nothing for a Period.
func (l *Ledger) expire(now time.Time) {
	for _, a := range l.guests {
		if a.fresh {
			a.fresh, a.refused = false, now
		} else if now.Sub(a.refused) >= Period {
			a.all = Counts{}
		}
	}
}

// due returns the guests that may have a line now, the busiest first, and forgets those about
// whom there is nothing to log.
func (l *Ledger) due(now time.Time) (due []Guest) {
	for g, a := range l.guests {
		switch {
		case now.Sub(a.logged) < Period: // it has had its line
		case a.counts.Total() > 0:
			due = append(due, g)
		case now.Sub(a.summed) >= Period:
			delete(l.guests, g)
		}
	}
	slices.SortFunc(due, func(a, b Guest) int {
		return cmp.Or(cmp.Compare(l.guests[b].rank(), l.guests[a].rank()), compare(a, b))
	})
	return due
}

// line is the line of one guest.
func line(g Guest, a *account) string {
	var refused []string
	for k, n := range a.counts {
		if n > 0 {
			refused = append(refused, fmt.Sprintf("%d %s", n, says[k]))
		}
	}
	return fmt.Sprintf("port %q of switch %q was refused %s", g.Port, g.Switch, strings.Join(refused, ", "))
}

// sum is the line about guests that have none of their own, the busiest first. Of guests it leaves
// maxKept, so that there is room for others.
func (l *Ledger) sum(due []Guest, now time.Time) string {
	refused, more := l.unnamed, ""
	if l.unnamed > 0 {
		more = "at least "
	}
	l.unnamed = 0
	for _, g := range due {
		a := l.guests[g]
		refused += a.counts.Total()
		a.waited, a.counts, a.summed = a.rank(), Counts{}, now
	}
	for _, g := range slices.Backward(due) {
		if len(l.guests) <= maxKept {
			break
		}
		delete(l.guests, g)
	}
	return fmt.Sprintf("%s%d further ports were refused %d packets, queries or connections, the log names %d a minute", more, len(due), refused, maxLines)
}
