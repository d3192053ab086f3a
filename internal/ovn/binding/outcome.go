// SPDX-License-Identifier: Apache-2.0

package binding

// location is where a port that was a guest here is, by Southbound.
type location uint8

const (
	unbound   location = iota // there is a row, without a chassis
	here                      // bound here, and its network is covered
	former                    // bound to the Chassis row that it was served by, which has another name than this chassis now
	elsewhere                 // bound to another chassis, or on another switch
	absent                    // there is no row, and the conditions would bring it
	unknown                   // the database is empty, or has not sent the rows yet
)

// facts is all that decides on one guest.
type facts struct {
	at         location
	plugged    bool // it has its interface
	keysReused bool // its tunnel keys are another port's, or another network's
	timedOut   bool // its grace is over
}

// Outcome is the decision on a guest without a binding. All but retain end its grace.
type Outcome uint8

const (
	retain Outcome = iota
	boundAgain
	moved
	deleted
	unplugged
	replaced
	Expired
)

// OutcomeTexts are for the log.
var OutcomeTexts = [...]string{
	boundAgain: "bound again", moved: "bound elsewhere", deleted: "deleted", unplugged: "without an interface",
	replaced: "replaced, as their tunnel keys are another port's", Expired: "not bound in time",
}

// decide decides on a guest. It is a pure function.
func (f facts) decide() Outcome {
	switch {
	case f.at == here:
		return boundAgain
	case f.at == elsewhere:
		return moved
	case f.at == absent:
		return deleted
	case !f.plugged:
		return unplugged
	case f.keysReused:
		return replaced
	case f.timedOut:
		return Expired
	}
	return retain
}
