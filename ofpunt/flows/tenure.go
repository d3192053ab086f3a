// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"math/rand/v2"
	"time"
)

// tenure decides which of several processes owns the flows of a bridge. They can't talk to
// each other: each sees in the switch whose punt stands. The rule is that of a term number
// in consensus protocols: the highest generation owns the flows, whoever sees a higher one
// than its own yields, and whoever takes over does so with a generation above all that it
// has seen. So the process that is replaced puts nothing back, however late it sees it.
type tenure struct {
	// generation is of this process's flows, 0 before it has one.
	generation uint64
	// yielding is set while another process owns the flows.
	yielding bool
	// until is when a process that yields takes over unless a punt stands again, zero
	// while one does.
	until time.Time
}

// verdict is what a process may do with the flows.
type verdict uint8

const (
	// own: they are this process's, it puts them back where somebody changes them.
	own verdict = iota
	// yield: another process owns them, or may be about to put them back.
	yield
	// take: nobody owns them any more. The process has a new generation from then on.
	take
)

// standingPunt is the punt that the switch has, of whatever process.
type standingPunt struct {
	stands     bool
	generation uint64
}

// step decides by the punt that stands now, and by the highest generation of any flow that
// has ever been seen: that of a later process may have come and gone unnoticed. A punt that
// is gone may have expired because its process is slow, or have been deleted with all other
// flows: its process gets patience to put it back.
func (t *tenure) step(now time.Time, punt standingPunt, highest uint64, patience time.Duration, random *rand.Rand) verdict {
	switch t.yielding = highest > t.generation; {
	case !t.yielding:
		return own
	case punt.stands && punt.generation > t.generation:
		t.until = time.Time{}
		return yield
	case punt.stands && punt.generation == farewell:
	case t.until.IsZero():
		t.until = now.Add(patience)
		return yield
	case now.Before(t.until):
		return yield
	}
	t.yielding, t.until = false, time.Time{}
	t.generation = nextGeneration(now, highest, random)
	return take
}

// patienceOf is how long a process waits for another that has lost its punt: longer than
// that one takes to look at its own flows again, and each process a little different.
func patienceOf(beat time.Duration, random *rand.Rand) time.Duration {
	return beat + time.Duration(random.Int64N(max(int64(beat/2), 1)))
}
