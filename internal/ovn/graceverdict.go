// SPDX-License-Identifier: Apache-2.0

package ovn

// whereabouts is what Southbound says of a port that was a guest here.
type whereabouts uint8

const (
	unbound   whereabouts = iota // the row stands, without a chassis
	here                         // bound here, and its network is complete
	elsewhere                    // bound to another chassis, or on another switch
	absent                       // no row, and there would be one
	unknown                      // the database is empty, or has not sent what would tell
)

// evidence is all that decides on one guest.
type evidence struct {
	where   whereabouts
	plugged bool // its interface stands
	taken   bool // its tunnel keys are another's
	over    bool // its grace is over
}

// verdict is what becomes of a guest without a binding. All but keep end the grace.
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

// verdicts are the words of the log.
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
	case e.taken:
		return replaced
	case e.over:
		return expired
	}
	return keep
}
