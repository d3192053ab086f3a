// SPDX-License-Identifier: Apache-2.0

// Package refusals records what limits refuse guests, with bounded memory and log lines (see [Ledger]). It has no
// clock, log or goroutine:
//
//	reader, workers ──Add──► Ledger ──Lines──► log, at each heartbeat of the session
//	                           └────Of, Busiest──► control socket
package refusals

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Guest names a guest in the log.
type Guest struct{ Port, Switch string }

// Kind is the property of ofpunt that refused.
type Kind uint8

// Kinds of refusals.
const (
	Rate        Kind = iota // packets that the switch has dropped
	Concurrent              // queries over max_concurrent of the guest or its limit
	Overload                // queries over the limit of all guests, or of the network's
	Connections             // connections over the limit of the guest or its network
	kinds
)

// Counts are refused packets, queries or connections by kind.
type Counts [kinds]uint64

// Total returns the sum of all kinds.
func (c *Counts) Total() (n uint64) {
	for _, k := range c {
		n += k
	}
	return n
}

var says = [kinds]string{
	Rate:        "packets over rate",
	Concurrent:  "queries over max_concurrent",
	Overload:    "queries by overload of its network or all",
	Connections: "TCP connections too many",
}

const (
	// Period is the least time between two lines of a guest, and the time of maxLines.
	Period = time.Minute
	// maxLines guests, the busiest, get a line in a period.
	maxLines = 10
	// maxGuests bounds accounts, at over half of a large chassis' guests. Others are only counted.
	maxGuests = 1024
	// maxKept accounts, the busiest, survive the line about further ports, so guests refused for the first time have
	// room.
	maxKept = maxGuests / 2
)

// Ledger has the refusals of the last minutes. A guest gets at most one line in a [Period], all together maxLines and
// a line that counts the others. Each refusal is logged once. The zero value is empty. Safe for concurrent use.
type Ledger struct {
	mu sync.Mutex // guards all fields below
	// guests have a refusal to log, or had a line within the last period.
	guests map[Guest]*account
	// unnamed counts refusals of guests without an account.
	unnamed uint64
	// Of this period: its begin, the guests with a line, and whether the others had theirs.
	since  time.Time
	lines  int
	summed bool
}

type account struct {
	// counts are not logged yet; all is since the guest was last without a refusal for a Period.
	counts, all Counts
	// fresh: refused since the last call of Lines. refused is the last call with fresh set.
	fresh   bool
	refused time.Time
	// waited was logged only about further ports since the guest's last line.
	waited uint64
	// Last line of the guest, and of further ports with it; zero for never.
	logged, summed time.Time
}

// With waited, a guest that is refused for long gets a line too.
func (a *account) rank() uint64 { return a.waited + a.counts.Total() }

// Add records n refusals. It blocks briefly, and allocates only for a guest's first.
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

// Of returns a guest's refusals since it was last without one for a [Period], by the time of Lines.
func (l *Ledger) Of(g Guest) (c Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.guests[g]; a != nil {
		c = a.all
	}
	return c
}

// Busiest returns the guest with most refusals by [Ledger.Of], and how many guests have any.
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

// Lines returns the lines to log. now must not go back.
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

func (l *Ledger) expire(now time.Time) {
	for _, a := range l.guests {
		if a.fresh {
			a.fresh, a.refused = false, now
		} else if now.Sub(a.refused) >= Period {
			a.all = Counts{}
		}
	}
}

// due returns guests for a line, the busiest first, and forgets guests without anything to log.
func (l *Ledger) due(now time.Time) (due []Guest) {
	for g, a := range l.guests {
		switch {
		case now.Sub(a.logged) < Period: // had its line
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

func line(g Guest, a *account) string {
	var refused []string
	for k, n := range a.counts {
		if n > 0 {
			refused = append(refused, fmt.Sprintf("%d %s", n, says[k]))
		}
	}
	return fmt.Sprintf("port %q of switch %q was refused %s", g.Port, g.Switch, strings.Join(refused, ", "))
}

// sum returns the line about further ports, and forgets the least busy guests over maxKept.
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
