// SPDX-License-Identifier: Apache-2.0

package ovn

// whereabouts is where a port that was a guest here is, by Southbound.
type whereabouts uint8

const (
	unbound   whereabouts = iota // there is a row, without a chassis
	here                         // bound here, and its network is complete
	former                       // bound to the Chassis row that it was served by, which has another name than this chassis now
	elsewhere                    // bound to another chassis, or on another switch
	absent                       // there is no row, and the conditions would cover it
	unknown                      // the database is empty, or has not sent the rows yet
)

// evidence is all that decides on one guest.
type evidence struct {
	where      whereabouts
	plugged    bool // it has its interface
	keysReused bool // its tunnel keys are another port's, or another network's
	timedOut   bool // its grace is over
}

// verdict is the decision on a guest without a binding. All but keep end its grace.
type verdict uint8

const (
	keep verdict = iota
	boundAgain
	moved
	deleted
	unplugged
	replaced
	expired
)

// verdicts are the texts for the log.
var verdicts = [...]string{
	boundAgain: "bound again", moved: "bound elsewhere", deleted: "deleted", unplugged: "without an interface",
	replaced: "replaced, as their tunnel keys are another port's", expired: "not bound in time",
}

// judge decides on a guest. It is a pure function.
func (e evidence) judge() verdict {
	switch {
	case e.where == here:
		return boundAgain
	case e.where == elsewhere:
		return moved
	case e.where == absent:
		return deleted
	case !e.plugged:
		return unplugged
	case e.keysReused:
		return replaced
	case e.timedOut:
		return expired
	}
	return keep
}
